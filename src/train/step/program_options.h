#pragma once
// The options of a recipe's programs, for a run and for a plan of one.

#include "base/host_kernels.h"
#include "recipe/recipe.h"
#include "train/step/program.h"

namespace tessera::train {

// Of the training step. `kernels`: of this host; a plan for other hardware has none.
ProgramOptions train_options(const recipe::Recipe& recipe, const HostKernels& kernels = {});
// Of one set of an evaluator.
ProgramOptions eval_options(const recipe::Recipe& recipe, const recipe::EvalSet& set, const HostKernels& kernels);

}  // namespace tessera::train
