#pragma once
// When a run ends before its total, by early_stop of a recipe.

#include <optional>
#include <string>

#include "recipe/recipe.h"
#include "state/progress.h"
#include "train/reporting/reporter.h"

namespace tessera::train {

// The state after the scores of `step`, which is as before where the rule's metric is not among them. A first score is the best;
// a later one that is better by more than min_delta is, and one that is not finite never (Keras' EarlyStopping).
std::optional<state::EarlyStopState> after_scores(const recipe::EarlyStop& rule, std::optional<state::EarlyStopState> state,
                                                  int64_t step, const NamedScores& scores);

// Why the run ends with this state: "val/loss was best at step 400 (0.123) and got no better for 5 epochs"; nothing where it goes
// on. A state of another metric ends nothing.
std::optional<std::string> early_end(const std::optional<recipe::EarlyStop>& rule,
                                     const std::optional<state::EarlyStopState>& state);

}  // namespace tessera::train
