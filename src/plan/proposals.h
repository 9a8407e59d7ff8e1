#pragma once
// How a plan is computed, and the search for changes with which the step fits. Only .cc files of this folder include this.

#include "plan/plan.h"
#include "recipe/recipe.h"

namespace tessera::plan {

// A recipe for some number of devices, and its training step.
struct Case {
  Case(const ReadRecipe& read, const std::vector<std::string>& overrides, int64_t devices, bool gpus = false);
  recipe::Recipe recipe;
  state::StateLayout layout;
  train::Program program;
};

struct CpuCase {
  Counts counts;
  pjrt::CompiledMemory memory;  // of the f32 step on CPUs: an upper estimate of other chips'
};
// The step compiled for virtual CPU devices, as many as the mesh has or a smaller mesh of the same parts.
CpuCase compile_on_cpu(const Case& c, const train::DeviceOptions& device);

// `cpu`: what compile_on_cpu gave for the case, where that is known already.
Plan plan_case(const Case& c, const Target& target, const PlanOptions& options, const CpuCase* cpu = nullptr);

// Changes with which the step fits, each compiled for its target to be sure. First those that leave the numbers as they are on
// the same hardware, the quickest first (rematerialise everything, accumulate, split everything), then other precision, then
// more devices, the fewest first. At most a handful.
std::vector<Proposal> find_proposals(const ReadRecipe& read, const Case& base, const Target& target,
                                     const PlanOptions& options);

}  // namespace tessera::plan
