#include "train/loop/best_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::train {

BestCheckpointKeeper::BestCheckpointKeeper(const std::optional<recipe::BestMetric>& metric, int64_t count,
                                           state::Progress& progress, Checkpoints checkpoints)
    : metric_(metric), count_(static_cast<size_t>(count)), progress_(progress), checkpoints_(std::move(checkpoints)) {}

void BestCheckpointKeeper::resume() {
  Ranking now = ranking();
  std::erase_if(now, [&](const state::BestCheckpoint& one) { return !metric_ || one.metric != metric_->name; });
  if (now.size() > count_) now.resize(count_);
  set(std::move(now));
}

// The start is none.
bool BestCheckpointKeeper::take(const NamedScores& scores) {
  if (!metric_ || metric_->of_training() || progress_.step == 0) return false;
  for (const auto& [name, s] : scores) {
    if (!metric_->name.starts_with(name + "/")) continue;
    const std::optional<double> score = s.find(metric_->name.substr(name.size() + 1));
    if (!score || !std::isfinite(*score)) continue;
    forget_missing();
    return rank(*score);
  }
  return false;
}

void BestCheckpointKeeper::before_save() {
  const std::vector<int64_t> best = steps();
  const bool ranked = std::ranges::find(best, progress_.step) != best.end();
  if (!ranked) forget_missing();
  if (!metric_ || !metric_->of_training() || !progress_.metrics || ranked) return;
  const float loss = progress_.metrics->front().value;
  if (std::isfinite(loss)) rank(loss);  // no update was made of one that is not
}

bool BestCheckpointKeeper::rank(double value) {
  Ranking old = ranking();
  const bool again = std::erase_if(old, [&](const state::BestCheckpoint& one) { return one.step == progress_.step; }) > 0;
  // Of equal ones the earlier stands first.
  const auto place =
      std::ranges::find_if(old, [&](const state::BestCheckpoint& one) { return metric_->better(value, one.value); });
  if (place == old.end() && old.size() >= count_) return false;
  if (!again) before_ = old;
  old.insert(place, {metric_->name, progress_.step, value});
  if (old.size() > count_) old.resize(count_);
  set(std::move(old));
  return true;
}

void BestCheckpointKeeper::forget_missing() {
  const auto missing = [&](const state::BestCheckpoint& one) { return !checkpoints_.has(one.step); };
  Ranking now = ranking();
  if (std::ranges::none_of(now, missing)) return;
  checkpoints_.wait();
  if (std::erase_if(now, missing) == 0) return;
  // Those that made room are there still where the one that replaced them was not saved.
  for (const state::BestCheckpoint& one : std::exchange(before_, {})) {
    if (now.size() >= count_ || missing(one) || std::ranges::find(now, one) != now.end()) continue;
    const auto place = std::ranges::find_if(now, [&](const auto& other) { return metric_->better(one.value, other.value); });
    now.insert(place, one);
  }
  set(std::move(now));
}

std::vector<int64_t> BestCheckpointKeeper::steps() const {
  std::vector<int64_t> steps;
  for (const state::BestCheckpoint& one : ranking()) steps.push_back(one.step);
  return steps;
}

BestCheckpointKeeper::Ranking BestCheckpointKeeper::ranking() const {
  Ranking all;
  if (progress_.best_checkpoint) all.push_back(*progress_.best_checkpoint);
  all.insert(all.end(), progress_.runners_up.begin(), progress_.runners_up.end());
  return all;
}

void BestCheckpointKeeper::set(Ranking ranking) {
  progress_.best_checkpoint = ranking.empty() ? std::nullopt : std::optional(ranking.front());
  if (!ranking.empty()) ranking.erase(ranking.begin());
  progress_.runners_up = std::move(ranking);
}

}  // namespace tessera::train
