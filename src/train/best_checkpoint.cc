#include "train/best_checkpoint.h"

#include <cmath>
#include <utility>

namespace tessera::train {

BestCheckpointKeeper::BestCheckpointKeeper(const std::optional<recipe::BestMetric>& metric, state::Progress& progress,
                                           Checkpoints checkpoints)
    : metric_(metric), progress_(progress), checkpoints_(std::move(checkpoints)) {}

void BestCheckpointKeeper::resume() {
  auto& best = progress_.best_checkpoint;
  if (!metric_ || (best && best->metric != metric_->name)) best.reset();
}

// The start is none.
bool BestCheckpointKeeper::take(const NamedScores& scores) {
  if (!metric_ || metric_->of_training() || progress_.step == 0) return false;
  for (const auto& [name, s] : scores) {
    if (!metric_->name.starts_with(name + "/")) continue;
    const std::optional<double> score = s.find(metric_->name.substr(name.size() + 1));
    if (!score || !std::isfinite(*score)) continue;
    forget_missing();
    const auto& best = progress_.best_checkpoint;
    if (best && best->step != progress_.step && !metric_->better(*score, best->value)) return false;
    remember(*score);
    return true;
  }
  return false;
}

void BestCheckpointKeeper::before_save() {
  const auto& best = progress_.best_checkpoint;
  if (best && best->step != progress_.step) forget_missing();
  if (!metric_ || !metric_->of_training() || !progress_.metrics) return;
  const double loss = progress_.metrics->front().value;
  if (!best || metric_->better(loss, best->value)) remember(loss);
}

void BestCheckpointKeeper::remember(double value) {
  const bool again = progress_.best_checkpoint && progress_.best_checkpoint->step == progress_.step;
  if (!again) before_ = std::exchange(progress_.best_checkpoint, std::nullopt);
  progress_.best_checkpoint = state::BestCheckpoint{metric_->name, progress_.step, value};
}

void BestCheckpointKeeper::forget_missing() {
  auto& best = progress_.best_checkpoint;
  const auto missing = [&] { return best && !checkpoints_.has(best->step); };
  if (!missing()) return;
  checkpoints_.wait();
  if (missing()) best = std::exchange(before_, std::nullopt);
  if (missing()) best.reset();
}

}  // namespace tessera::train
