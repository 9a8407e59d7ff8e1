#pragma once
// The options of a recipe's programs, for a run and for a plan of one.

#include "host/target.h"
#include "pjrt/client.h"
#include "recipe/recipe.h"
#include "train/step/program.h"

namespace tessera::train {

// Of the training step. `kernels`: of this host; a plan for other hardware has none. `gpus`: it is for NVIDIA GPUs.
ProgramOptions train_options(const recipe::Recipe& recipe, const host::Kernels& kernels = {}, bool gpus = false);
// The same for the client's devices.
ProgramOptions train_options(const recipe::Recipe& recipe, const pjrt::Client& client);
// Of one set of an evaluator.
ProgramOptions eval_options(const recipe::Recipe& recipe, const recipe::EvalSet& set, const host::Kernels& kernels);

}  // namespace tessera::train
