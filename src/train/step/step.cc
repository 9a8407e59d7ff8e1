#include "train/step/step.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/numbers.h"
#include "ir/ops.h"
#include "ir/program/program.h"
#include "ir/random.h"
#include "nn/init.h"
#include "objectives/softmax.h"
#include "train/guard/skip_update.h"
#include "train/step/by_device.h"
#include "train/step/histograms.h"
#include "train/step/trace.h"

namespace tessera::train {
namespace {

using ir::Value;
using ir::Values;

Values add_arguments(ir::Graph& graph, const state::StateLayout& layout, size_t count, const std::string& prefix = {}) {
  Values values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(graph.add_parameter(layout.entries[i].type, prefix + layout.entries[i].name));
  }
  return values;
}

// What comes before the augmentation's among a program's arguments.
objectives::Batch add_batch(const models::Model& model, const objectives::Inputs& inputs, int64_t rows,
                            const Dims& image_size) {
  ir::Graph& graph = ir::current_graph();
  objectives::Batch batch;
  if (inputs.images) batch.images = graph.add_parameter(image_batch(model, rows, image_size), "images");
  const TensorType labels =
      inputs.multi_hot > 0 ? TensorType{DType::kU8, {rows, inputs.multi_hot}} : TensorType{DType::kI32, {rows}};
  if (inputs.labels) batch.labels = graph.add_parameter(labels, "labels");
  for (const objectives::TokenInput& tokens : inputs.tokens) {
    batch.tokens.push_back(graph.add_parameter({DType::kI32, {rows, tokens.length}}, tokens.name));
  }
  return batch;
}

// How many arguments it adds.
size_t batch_inputs(const objectives::Inputs& inputs) {
  return (inputs.images ? 1 : 0) + (inputs.labels ? 1 : 0) + inputs.tokens.size();
}

// What a program over the layout's mesh says of its arguments and results.
void spread(ir::EmitOptions& emit, const state::StateLayout& layout, std::vector<mesh::PartitionSpec> arguments,
            std::vector<mesh::PartitionSpec> results) {
  if (!layout.sharded()) return;
  emit.mesh = layout.mesh;
  emit.argument_specs = std::move(arguments);
  emit.result_specs = std::move(results);
}

// The specs of `count` entries, then of `inputs` arrays whose rows are those of the batch.
std::vector<mesh::PartitionSpec> with_batch(const state::StateLayout& layout, size_t count, size_t inputs) {
  std::vector<mesh::PartitionSpec> specs = layout.specs(count);
  specs.resize(count + inputs, {{mesh::batch_axes(layout.mesh)}});
  return specs;
}

}  // namespace

std::vector<std::string> metric_names(const objectives::Objective& objective,
                                      const std::optional<recipe::GuardOptions>& guard) {
  std::vector<std::string> names = {"training_loss", "l2_grads", "l2_params", "l2_updates", "lr"};
  for (const std::string& name : objective.metrics()) names.push_back("training_" + name);
  if (guard) {
    for (const std::string& name : guard_metric_names()) names.push_back(name);
  }
  return names;
}

std::array<uint32_t, 2> seed_key(uint64_t seed) { return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}; }

namespace {

// `before`: the entries before it.
Value initial_entry(const std::vector<nn::ParamSpec>& specs, const state::StateLayout& layout, size_t i, Value rng, Value key,
                    const Values& before) {
  if (i < layout.params) return nn::initial_value(specs[i], key);
  if (i == layout.rng_index()) return rng;
  const TensorType& type = layout.entries[i].type;
  if (layout.averages > 0 && i >= layout.average_index() && i < layout.lr_scale_index())
    return before[i - layout.average_index()];
  return layout.lr_scale && i == layout.lr_scale_index() ? ir::constant(1, type.dtype) : ir::zeros(type);
}

}  // namespace

Program init_program(const std::vector<nn::ParamSpec>& specs, const state::StateLayout& layout) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Value rng = graph.add_parameter({DType::kU32, {2}}, "rng");
  const Value key = ir::fold_in(rng, "init");
  for (size_t i = 0; i < layout.entries.size(); ++i) {
    graph.results.push_back(initial_entry(specs, layout, i, rng, key, graph.results));
  }
  Values moments;
  for (size_t i = 0; i < layout.params; ++i) {
    const Value x = graph.results[i];
    const double share = 1 / static_cast<double>(element_count(x.dims()));
    const Value mean = ir::sum_all(x) * share;
    moments.push_back(mean);
    moments.push_back(ir::sqrt(ir::sum_all(ir::square(x - mean)) * share));
  }
  graph.results.push_back(ir::pack(moments));
  ir::EmitOptions emit{.name = "init"};
  std::vector<mesh::PartitionSpec> results = layout.specs(layout.entries.size());
  results.push_back({});
  spread(emit, layout, {{}}, std::move(results));
  Program program = program_of(graph, emit, layout, {});
  program.once = true;
  return program;
}

namespace {

// In the order of the program's arguments.
struct TrainArguments {
  Values state, teacher;
  objectives::Batch batch;
  Value augment;  // null where the augmentation takes no values
  ir::Processes processes;
  Value votes;  // null where there is one process
};

// The last arguments of a program that several processes run together, before its numbers.
void add_processes(const state::StateLayout& layout, const ProgramOptions& options, ir::Processes& processes, Value& votes) {
  processes.count = options.processes;
  if (options.joint) votes = ir::current_graph().add_parameter({DType::kF32, {layout.devices(), kVotes}}, "votes");
  if (!processes.several()) return;
  processes.index = ir::current_graph().add_parameter({DType::kI32, {}}, "process");
  votes = ir::current_graph().add_parameter({DType::kF32, {kVotes}}, "votes");
}

// And how those lie on the mesh.
void add_specs_of_processes(const state::StateLayout& layout, const ProgramOptions& options,
                            std::vector<mesh::PartitionSpec>& specs) {
  if (options.joint) {
    mesh::AxisNames all;
    for (const mesh::Axis& axis : layout.mesh.axes) all.push_back(axis.name);
    specs.push_back({{all}});
  }
  if (options.processes > 1) specs.resize(specs.size() + 2);
}

TrainArguments add_train_arguments(const models::Model& model, const state::StateLayout& layout,
                                   const ProgramOptions& options) {
  ir::Graph& graph = ir::current_graph();
  TrainArguments out;
  out.state = add_arguments(graph, layout, layout.entries.size());
  if (options.teacher) out.teacher = add_arguments(graph, options.teacher->layout, options.teacher->layout.params, "teacher/");
  out.batch = add_batch(model, options.objective->inputs(), options.batch, options.image_size);
  if (const int64_t values = options.augmentation.values())
    out.augment = graph.add_parameter({DType::kF32, {options.batch, values}}, "augment");
  add_processes(layout, options, out.processes, out.votes);
  return out;
}

std::vector<mesh::PartitionSpec> specs_of(const TrainArguments& arguments, const state::StateLayout& layout,
                                          const ProgramOptions& options, size_t numbers) {
  const size_t inputs = batch_inputs(options.objective->inputs()) + (arguments.augment ? 1 : 0), state = arguments.state.size();
  std::vector<mesh::PartitionSpec> specs = with_batch(layout, state, inputs);
  if (options.teacher) {
    const std::vector<mesh::PartitionSpec> teacher = options.teacher->layout.specs(arguments.teacher.size());
    specs.insert(specs.begin() + static_cast<ptrdiff_t>(state), teacher.begin(), teacher.end());
  }
  add_specs_of_processes(layout, options, specs);
  specs.resize(specs.size() + numbers);
  return specs;
}

// What draws in the step after `step` of them.
Value step_key(Value rng, Value step) { return ir::fold_in(ir::fold_in(rng, "step"), step); }

struct StepUpdate {
  BatchGradient batch;
  Value votes;  // summed; null where there is one process
  optim::Optimizer::Result result;
  Values differences;          // of the trainable parameters: after minus before
  std::vector<float> numbers;  // of the optimizer, which are parameters of the program
};

// The norm of `arrays`, one for each chosen parameter: they lie on the mesh as the parameters do. Where all are whole on every
// device, that need not be said.
Value norm_of(const state::StateLayout& layout, const Values& arrays, const std::function<bool(size_t)>& chosen) {
  std::vector<mesh::PartitionSpec> specs;
  for (size_t i = 0; i < layout.params; ++i) {
    if (chosen(i)) specs.push_back(layout.entries[i].spec);
  }
  if (std::ranges::all_of(specs, &mesh::PartitionSpec::replicated)) specs.clear();
  return ir::global_norm(arrays, specs);
}

StepUpdate step_update(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                       const ProgramOptions& options, const TrainArguments& arguments) {
  const Values& state = arguments.state;
  const auto params_end = state.begin() + static_cast<ptrdiff_t>(layout.params);
  const Values params(state.begin(), params_end);
  const Values slots(params_end, params_end + static_cast<ptrdiff_t>(layout.slots));
  const Value step = state[layout.step_index()];

  const StepInputs inputs{params,          arguments.teacher, step_key(state[layout.rng_index()], step),
                          arguments.batch, arguments.augment, arguments.processes,
                          arguments.votes};
  StepUpdate out;
  StepGradient gradient = step_gradient(model, layout, optimizer, options, inputs);
  out.batch = std::move(gradient.batch);
  out.votes = gradient.votes;
  const ir::NumbersScope numbers(ir::current_graph());
  Value grad_norm;
  {
    const ir::NameScope named("optimizer");
    grad_norm = norm_of(layout, out.batch.grads, [&](size_t i) { return optimizer.trainable(i); });
  }
  out.result = optimizer.apply(params, out.batch.grads, slots, step, layout.lr_scale ? state[layout.lr_scale_index()] : Value{},
                               grad_norm);
  out.numbers = numbers.values();
  const ir::NameScope named("metrics");
  for (size_t i = 0; i < params.size(); ++i) {
    if (optimizer.trainable(i)) out.differences.push_back(out.result.values[i] - params[i]);
  }
  return out;
}

// The program's results: the state of the next step in the layout's order, and what was measured. `numbers`: those that became
// parameters.
Values train_results(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                     const ProgramOptions& options, const TrainArguments& arguments, std::vector<float>& numbers) {
  const Values& state = arguments.state;
  const Value step = state[layout.step_index()], rng = state[layout.rng_index()];
  const StepUpdate made = step_update(model, layout, optimizer, options, arguments);
  const BatchGradient& batch = made.batch;
  const optim::Optimizer::Result& update = made.result;
  numbers = made.numbers;
  const auto is_moved = [&](size_t i) { return optimizer.trainable(i); };
  GuardedStep guarded;
  Value change;  // its norm
  if (layout.guard) {
    change = norm_of(layout, made.differences, is_moved);
    Values looked_at = batch.measured;
    looked_at.push_back(change);
    guarded = guard_step(*options.guard, state[layout.guard_index()], update.grad_norm, looked_at);
  }
  const auto kept = [&](Value changed, size_t entry) { return guarded.choose(changed, state[entry]); };

  Values results = with_buffers(layout, update.values, batch.buffers);
  results.insert(results.end(), update.slots.begin(), update.slots.end());
  for (size_t i = 0; i < results.size(); ++i) results[i] = kept(results[i], i);
  Values weights;
  const auto is_trained = [&](size_t i) { return layout.entries[i].trained; };
  for (size_t i = 0; i < layout.params; ++i) {
    if (is_trained(i)) weights.push_back(results[i]);
  }
  results.push_back(ir::add(step, ir::constant(1, DType::kI32)));
  results.push_back(rng);
  if (layout.averages > 0) {
    const ir::NumbersScope scope(ir::current_graph());
    const ir::NameScope named("average");
    const Value decay = options.average->decay(step);
    for (size_t i = 0; i < layout.averages; ++i) {
      const size_t entry = layout.average_index() + i;
      results.push_back(kept(optim::Average::update(state[entry], results[i], decay), entry));
    }
    numbers.insert(numbers.end(), scope.values().begin(), scope.values().end());
  }
  if (layout.lr_scale) results.push_back(state[layout.lr_scale_index()]);
  if (layout.guard) results.push_back(guarded.state);
  const ir::NameScope named("metrics");
  Values measured = {batch.measured[0], update.grad_norm, norm_of(layout, weights, is_trained),
                     change ? change : norm_of(layout, made.differences, is_moved), update.lr};
  measured.insert(measured.end(), batch.measured.begin() + 1, batch.measured.end());
  measured.insert(measured.end(), guarded.measured.begin(), guarded.measured.end());
  Value metrics = ir::pack(measured);
  if (made.votes) metrics = ir::concatenate({metrics, made.votes}, 0);
  results.push_back(metrics);
  return results;
}

Program one_train_program(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                          const ProgramOptions& options) {
  TESSERA_CHECK(options.objective && options.accumulate >= 1 && options.batch % options.accumulate == 0);
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const TrainArguments arguments = add_train_arguments(model, layout, options);
  std::vector<float> numbers;
  graph.results = train_results(model, layout, optimizer, options, arguments, numbers);

  ir::EmitOptions emit{.name = kTrainStep, .by_device = by_device(layout, options)};
  std::vector<mesh::PartitionSpec> results = layout.specs(layout.entries.size());
  results.push_back({});
  spread(emit, layout, specs_of(arguments, layout, options, numbers.size()), std::move(results));
  for (int64_t i = 0; i < static_cast<int64_t>(layout.entries.size()); ++i) emit.aliases.emplace_back(i, i);
  Program program = program_of(graph, emit, layout, options);
  program.numbers = std::move(numbers);
  return program;
}

}  // namespace

Program train_program(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                      const ProgramOptions& options) {
  Program program = one_train_program(model, layout, optimizer, options);
  if (!options.keeps_activations) return program;
  ProgramOptions less = options;
  less.keeps_activations = false;
  Program smaller = one_train_program(model, layout, optimizer, less);
  if (smaller.text != program.text) program.smaller = std::make_shared<const Program>(std::move(smaller));
  return program;
}

Program augmented_program(const models::Model& model, const state::StateLayout& layout, const ProgramOptions& options,
                          int64_t images) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Value rng = graph.add_parameter({DType::kU32, {2}}, "rng");
  const objectives::Inputs& inputs = options.objective->inputs();
  objectives::Batch batch = add_batch(model, inputs, options.batch, options.image_size);
  const Value augment = graph.add_parameter({DType::kF32, {options.batch, options.augmentation.values()}}, "augment");
  ir::Processes processes;
  Value votes;
  add_processes(layout, options, processes, votes);
  const TrainRows rows = mix_rows(options.augmentation, std::move(batch), augment, processes);
  Value pixels = rows.batch.images;
  if (rows.boxes) {
    const Value key = ir::fold_in(step_key(rng, ir::constant(0, DType::kI32)), "erasing");
    pixels = erase_boxes(*options.augmentation.erasing, normalize(pixels, options.pixels), rows.boxes, key, processes);
    data::PixelScale back;
    for (size_t c = 0; c < 3; ++c) {
      back.scale[c] = 1 / options.pixels.scale[c];
      back.offset[c] = -options.pixels.offset[c] / options.pixels.scale[c];
    }
    back.grey = options.pixels.grey;
    pixels = rescale(pixels, back);
  } else if (options.pixels.grey) {
    pixels = luminance(pixels);
  }
  pixels = ir::convert(ir::slice_axis(pixels, 0, 0, std::min(images, options.batch)), DType::kF32);
  pixels = ir::clamp(ir::constant(0), ir::round_nearest_even(pixels), ir::constant(255));
  Dims in_colour = pixels.dims();
  in_colour.back() = 3;
  graph.results = {ir::convert(ir::broadcast_to(pixels, in_colour), DType::kU8)};
  ir::EmitOptions emit{.name = "augmented"};
  std::vector<mesh::PartitionSpec> specs = with_batch(layout, 0, batch_inputs(inputs) + 1);
  specs.insert(specs.begin(), mesh::PartitionSpec{});
  add_specs_of_processes(layout, options, specs);
  spread(emit, layout, std::move(specs), {{}});
  ProgramOptions calls;
  if (processes.several()) calls.hardware.kernels = options.hardware.kernels;
  Program program = program_of(graph, emit, layout, calls);
  program.once = true;
  return program;
}

Program histogram_program(const models::Model& model, const state::StateLayout& layout, const optim::Optimizer& optimizer,
                          const ProgramOptions& options) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const TrainArguments arguments = add_train_arguments(model, layout, options);
  const auto [batch, votes, update, differences, numbers] = step_update(model, layout, optimizer, options, arguments);
  Values rows;
  for (size_t i = 0, trained = 0; i < layout.params; ++i) {
    if (!optimizer.trainable(i)) continue;
    for (const Value x : {update.values[i], differences[trained], batch.grads[trained]}) rows.push_back(histogram_row(x));
    ++trained;
  }
  graph.results = {ir::concatenate(rows, 0)};
  ir::EmitOptions emit{.name = "histograms", .by_device = by_device(layout, options)};
  spread(emit, layout, specs_of(arguments, layout, options, numbers.size()), {{}});
  Program program = program_of(graph, emit, layout, options);
  program.numbers = numbers;
  return program;
}

Program eval_program(const models::Model& model, const evaluators::Evaluator& evaluator, size_t set,
                     const state::StateLayout& layout, const ProgramOptions& options) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Values params = add_arguments(graph, layout, layout.params);
  const objectives::Inputs& inputs = evaluator.inputs(set);
  objectives::Batch batch = add_batch(model, inputs, options.batch, options.image_size);
  if (inputs.images) batch.images = normalize(batch.images, options.pixels);
  Values columns =
      trace(layout, params, {}, options, [&](const nn::Scope& root) { return evaluator.rows(set, model, root, batch); });
  for (Value& column : columns) column = ir::reshape(ir::convert(column, DType::kF32), {options.batch, -1});
  graph.results = {ir::concatenate(columns, 1)};
  ir::EmitOptions emit{.name = "evaluate"};
  spread(emit, layout, with_batch(layout, layout.params, batch_inputs(inputs)), {{}});
  return inference_program(graph, emit, layout, options);
}

Program predict_program(const models::Model& model, const state::StateLayout& layout, const ProgramOptions& options) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Values params = add_arguments(graph, layout, layout.params);
  const Value images = graph.add_parameter(image_batch(model, options.batch), "images");
  const Value pixels = normalize(images, options.pixels);
  graph.results = trace(layout, params, {}, options,
                        [&](const nn::Scope& root) { return Values{objectives::classify(model, root, pixels)}; });
  ir::EmitOptions emit{.name = "predict"};
  spread(emit, layout, with_batch(layout, layout.params, 1), {{}});
  return inference_program(graph, emit, layout, options);
}

}  // namespace tessera::train
