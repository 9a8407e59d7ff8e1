#include "train/step/by_device.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "host/kernel.h"
#include "train/step/trace.h"

namespace tessera::train {
namespace {

using ir::Value;
using ir::Values;

bool replicated(const state::StateLayout& layout) {
  return std::ranges::all_of(layout.entries, [](const state::StateEntry& entry) { return entry.spec.replicated(); });
}

// Whether the batch is split over all devices, in their order.
bool rows_follow_devices(const mesh::Mesh& mesh) {
  mesh::AxisNames split;
  for (const mesh::Axis& axis : mesh.axes) {
    if (axis.size > 1) split.push_back(axis.name);
  }
  return split == mesh::batch_axes(mesh);
}

state::StateLayout layout_of_device(state::StateLayout layout) {
  layout.mesh = {};
  return layout;
}

ProgramOptions options_of_device(const state::StateLayout& layout, ProgramOptions options) {
  options.batch /= layout.devices();
  options.processes *= layout.devices();
  options.devices_that_meet = layout.devices();
  if (const auto teacher = options.teacher) {
    recipe::Teacher own{teacher->model, layout_of_device(teacher->layout), {}, teacher->pixels};
    options.teacher = std::make_shared<recipe::Teacher>(std::move(own));
  }
  return options;
}

StepGradient gradient_of_rows(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                              const ProgramOptions& options, const StepInputs& inputs) {
  const TrainRows rows = [&] {
    const ir::NameScope named("augment");
    TrainRows mixed = mix_rows(options.augmentation, inputs.batch, inputs.augment, inputs.processes);
    mixed.batch.loss_scale = objectives::loss_scale(*options.objective, mixed.batch, inputs.processes);
    return mixed;
  }();
  StepGradient out;
  out.batch =
      batch_gradient({model, layout, optimizer, options, inputs.params, inputs.teacher, inputs.processes}, rows, inputs.key);
  const ir::NameScope named("metrics");
  if (inputs.votes)
    out.votes = options.joint ? ir::sum(inputs.votes, {0}) : ir::sum_over_processes(inputs.processes, inputs.votes);
  return out;
}

}  // namespace

bool by_device(const state::StateLayout& layout, const ProgramOptions& options) {
  return layout.sharded() && options.hardware.kernels.has(host::kProcesses) && rows_follow_devices(layout.mesh) &&
         replicated(layout) && (!options.teacher || replicated(options.teacher->layout));
}

std::unique_ptr<const ir::Target> device_target(const state::StateLayout& layout, const ProgramOptions& options) {
  return target_of(options_of_device(layout, options), layout_of_device(layout));
}

StepGradient step_gradient(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                           const ProgramOptions& options, const StepInputs& inputs) {
  if (!by_device(layout, options)) return gradient_of_rows(model, layout, optimizer, options, inputs);

  const state::StateLayout own_layout = layout_of_device(layout);
  const ProgramOptions own_options = options_of_device(layout, options);
  StepInputs own = inputs;
  Values operands;
  std::vector<int64_t> split;
  own.each([&](Value value, int64_t rows) { operands.push_back(value), split.push_back(rows); });
  operands.push_back(ir::iota({DType::kI32, {layout.devices()}}, 0));  // to each its number
  split.push_back(0);

  StepGradient made;
  const auto body = [&](const Values& local) {
    size_t next = 0;
    own.each([&](Value& value, int64_t) { value = local[next++]; });
    const Value device = ir::reshape(local[next], {});
    const Value first = own.processes.index;
    own.processes = {own_options.processes,
                     first ? first * ir::constant(static_cast<double>(layout.devices()), DType::kI32) + device : device};
    made = gradient_of_rows(model, own_layout, optimizer, own_options, own);
    Values results;
    for (const Values* values : {&made.batch.grads, &made.batch.measured, &made.batch.buffers})
      results.insert(results.end(), values->begin(), values->end());
    if (made.votes) results.push_back(made.votes);
    return results;
  };
  const Values results = ir::shard_map(layout.mesh, operands, split, body, ir::kWhole);
  size_t next = 0;
  for (Values* values : {&made.batch.grads, &made.batch.measured, &made.batch.buffers}) {
    for (Value& value : *values) value = results[next++];
  }
  if (made.votes) made.votes = results[next];
  return made;
}

}  // namespace tessera::train
