#pragma once
// The options of a recipe's programs, for a run and for a plan of one.

#include "recipe/recipe.h"
#include "train/step/program.h"

namespace tessera::train {

// Of the training step.
ProgramOptions train_options(const recipe::Recipe& recipe, const Hardware& hardware);
// Of one set of an evaluator.
ProgramOptions eval_options(const recipe::Recipe& recipe, const recipe::EvalSet& set, const Hardware& hardware);

}  // namespace tessera::train
