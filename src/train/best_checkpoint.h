#pragma once
// Which checkpoint stays as the best one, by checkpoint.best of a recipe.

#include <cstdint>
#include <functional>
#include <optional>

#include "recipe/recipe.h"
#include "state/progress.h"
#include "train/reporter.h"

namespace tessera::train {

// Keeps Progress::best_checkpoint, which is saved with the state.
class BestCheckpointKeeper {
 public:
  struct Checkpoints {
    std::function<bool(int64_t step)> has;
    std::function<void()> wait;  // until the save under way has ended
  };
  // `metric` is nothing where no checkpoint is kept as the best. All are borrowed.
  BestCheckpointKeeper(const std::optional<recipe::BestMetric>& metric, state::Progress& progress, Checkpoints checkpoints);

  // After a resume: the best by another metric is none.
  void resume();
  // Whether the scores of the step at hand make its checkpoint the best so far; it is remembered then, and has to be saved.
  bool take(const NamedScores& scores);
  // Before the step at hand is saved: by the training loss it may be the best of those saved.
  void before_save();
  // The best one's save may have failed, or somebody has removed it. The one before it then takes its place, if it is there.
  void forget_missing();

 private:
  void remember(double value);

  const std::optional<recipe::BestMetric>& metric_;
  state::Progress& progress_;
  Checkpoints checkpoints_;
  std::optional<state::BestCheckpoint> before_;  // before that of progress_, which may not be saved yet
};

}  // namespace tessera::train
