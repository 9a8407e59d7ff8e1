#pragma once
// Which checkpoints stay as the best ones, by checkpoint.best and checkpoint.keep_best of a recipe.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "recipe/recipe.h"
#include "state/progress.h"
#include "train/reporting/reporter.h"

namespace tessera::train {

// Keeps Progress::best_checkpoint and runners_up, which are saved with the state.
class BestCheckpointKeeper {
 public:
  struct Checkpoints {
    std::function<bool(int64_t step)> has;
    std::function<void()> wait;  // until the save under way has ended
  };
  // `metric` is nothing where no checkpoint is kept as the best; `count` (>= 1) of them are kept. All are borrowed.
  BestCheckpointKeeper(const std::optional<recipe::BestMetric>& metric, int64_t count, state::Progress& progress,
                       Checkpoints checkpoints);

  // After a resume: the best by another metric is none.
  void resume();
  // Whether the scores of the step at hand make its checkpoint one of the best so far; it is remembered then, and has to be
  // saved.
  bool take(const NamedScores& scores);
  // Before the step at hand is saved: by the training loss it may be one of the best of those saved.
  void before_save();
  // The save of one of the best may have failed, or somebody has removed it. The one that it replaced then takes its place, if
  // it is there.
  void forget_missing();
  // Their steps, the best one's first.
  std::vector<int64_t> steps() const;

 private:
  using Ranking = std::vector<state::BestCheckpoint>;  // best first
  Ranking ranking() const;
  void set(Ranking ranking);
  // Whether a checkpoint of the step at hand with this value is among the best; it is remembered then.
  bool rank(double value);

  const std::optional<recipe::BestMetric>& metric_;
  size_t count_;
  state::Progress& progress_;
  Checkpoints checkpoints_;
  Ranking before_;  // the last of them was entered, which may not be saved yet
};

}  // namespace tessera::train
