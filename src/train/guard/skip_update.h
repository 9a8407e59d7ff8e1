#pragma once
// Whether the update of a step is made, decided by the step's own program: on a mesh, with micro-batches and of several processes
// from the same numbers on every device.
//
// An update is skipped where the training loss, another measurement of the objective, the norm of the gradient or that of the
// change of the parameters is not finite (optax's apply_if_finite looks at the updates alike), or where the recipe names a spike and
// the gradient's norm g is above spike * a. Here a is the running average of the norms of the updates that were made: with n of
// them so far, and m = min(n + 1, window)
//   a <- a + (g - a) / m
// and no g is a spike while n < window.

#include <string>
#include <vector>

#include "ir/ops.h"
#include "recipe/recipe.h"

namespace tessera::train {

// What it measures of a step: skips in a row until now, 0 where the update is made; skips of the whole run; and a, before this
// step.
std::vector<std::string> guard_metric_names();
// Their places among these.
enum GuardMetric : size_t { kSkipsInRow, kSkips, kNormAverage };

// Of one step. Without a guard it is empty, and every update is made.
struct GuardedStep {
  ir::Value made;       // bool scalar
  ir::Value state;      // f32 [kGuardValues]: a, min(n, window), skips in a row, all skips
  ir::Values measured;  // guard_metric_names

  ir::Value choose(ir::Value changed, ir::Value as_it_was) const {
    return made ? ir::select(made, changed, as_it_was) : changed;
  }
};

// `state`: f32 [kGuardValues]; `norm`: of the gradient; `others`: further f32 scalars that have to be finite.
GuardedStep guard_step(const recipe::GuardOptions& guard, ir::Value state, ir::Value norm, const ir::Values& others);

}  // namespace tessera::train
