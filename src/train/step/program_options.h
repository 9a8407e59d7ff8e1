#pragma once
// The options of a recipe's programs, for a run and for a plan of one.

#include "host/target.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "recipe/recipe.h"
#include "train/step/program.h"

namespace tessera::train {

// Of the training step. `kernels`: of this host; a plan for other hardware has none. `gpus`: it is for NVIDIA GPUs, where cuDNN's
// attention works.
ProgramOptions train_options(const recipe::Recipe& recipe, const host::Kernels& kernels = {}, bool gpus = false);
// The same for the client's devices. On GPUs cuDNN's attention is tried while the program is traced; `cache` keeps that program.
ProgramOptions train_options(const recipe::Recipe& recipe, const pjrt::Client& client, const pjrt::ExecutableCache& cache);
// Of one set of an evaluator.
ProgramOptions eval_options(const recipe::Recipe& recipe, const recipe::EvalSet& set, const host::Kernels& kernels);

}  // namespace tessera::train
