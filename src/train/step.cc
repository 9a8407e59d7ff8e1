#include "train/step.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "ir/emit.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/ops.h"
#include "ir/random.h"
#include "train/objective.h"

namespace tessera::train {
namespace {

using ir::Value;
using ir::Values;

Values add_arguments(ir::Graph& graph, const StateLayout& layout, size_t count) {
  Values values;
  for (size_t i = 0; i < count; ++i) values.push_back(graph.add_parameter(layout.entries[i].type, layout.entries[i].name));
  return values;
}

TensorType image_type(const models::Model& model, int64_t batch) {
  const models::InputShape& in = model.input();
  return {DType::kU8, {batch, in.height, in.width, in.channels}};
}

Value normalize(Value images, const data::Affine& pixels) {
  TESSERA_CHECK(images.dim(-1) == 3, "{} channels", images.dim(-1));
  const auto row = [](const std::array<float, 3>& values) {
    return ir::constant_f32({3}, std::vector<float>(values.begin(), values.end()));
  };
  return ir::convert(images, DType::kF32) * row(pixels.scale) + row(pixels.offset);
}

// The model's logits of normalised images in the current graph, whose parameters are `params` (all of the layout's).
Value trace_logits(const models::Model& model, const StateLayout& layout, const Values& params, Value images,
                   nn::Context context, const ProgramOptions& options) {
  ir::Graph& graph = ir::current_graph();
  nn::ParamStore store(graph);
  const size_t prefix = std::string_view("params/").size();
  for (size_t i = 0; i < layout.params; ++i) store.provide(layout.entries[i].name.substr(prefix), graph.adopt(params[i]));
  const nn::Sharding sharding = sharding_of(layout);
  context.compute = options.compute;
  if (layout.sharded()) {
    context.sharding = &sharding;
  } else {
    context.kernels = options.kernels;  // opaque to the partitioner
  }
  const Value logits = model.logits(nn::Scope(store, context), images);
  TESSERA_CHECK(store.specs().size() == layout.params, "the model has {} parameters, the layout {}", store.specs().size(),
                layout.params);
  return logits;
}

struct BatchGradient {
  Values grads;         // of the trainable parameters
  Value loss, correct;  // mean loss and share of correct rows, both already divided by the whole batch
};

class TrainStep {
 public:
  TrainStep(const models::Model& model, const StateLayout& layout, const optim::Optimizer& optimizer,
            const ProgramOptions& options, Values params)
      : model_(model), layout_(layout), optimizer_(optimizer), options_(options), params_(std::move(params)) {}

  BatchGradient gradient(const TrainRows& rows, Value key) const {
    return options_.accumulate == 1 ? part(rows, key) : accumulated(rows, key);
  }

 private:
  // A gradient of parameter i lies as the parameter does: summed over the devices no later than it has to be.
  Value at_rest(Value x, size_t i) const {
    const mesh::PartitionSpec& spec = layout_.entries[i].spec;
    return layout_.sharded() ? ir::reshard(x, spec, spec) : x;
  }

  // Cross-entropy of each row, with its partner's label where rows are mixed.
  Value loss_of(Value logits, const TrainRows& rows) const {
    const Value own = softmax_cross_entropy(logits, rows.labels, options_.label_smoothing);
    if (!rows.partner_labels) return own;
    const Value partner = softmax_cross_entropy(logits, *rows.partner_labels, options_.label_smoothing);
    return own * *rows.own_share + partner * (1.0 - *rows.own_share);
  }

  BatchGradient part(const TrainRows& rows, Value key) const {
    ir::Graph& graph = ir::current_graph();
    Value images = normalize(rows.images, options_.pixels);
    if (rows.boxes) images = erase_boxes(*options_.augmentation.erasing, images, *rows.boxes, ir::fold_in(key, "erasing"));
    const Value logits = trace_logits(model_, layout_, params_, images, {.training = true, .key = key}, options_);
    const double share = 1.0 / static_cast<double>(options_.batch);
    BatchGradient out;
    out.loss = ir::sum_all(loss_of(logits, rows)) * share;
    out.correct = ir::sum_all(ir::stop_gradient(top_k_correct(logits, rows.labels, 1))) * share;
    Values wanted;
    for (size_t i = 0; i < layout_.params; ++i) {
      if (optimizer_.trainable(i)) wanted.push_back(graph.adopt(params_[i]));
    }
    out.grads = ir::gradient(out.loss, wanted);
    for (size_t i = 0, g = 0; i < layout_.params; ++i) {
      if (optimizer_.trainable(i)) out.grads[g] = at_rest(out.grads[g], i), ++g;
    }
    return out;
  }

  // [batch, …] -> [micro-batches, rows, …]. A micro-batch takes every n-th row, so that each device's rows stay its own.
  Value micro_batches(Value x) const {
    const int64_t parts = options_.accumulate;
    Dims dims = x.dims();
    dims[0] /= parts;
    dims.insert(dims.begin() + 1, parts);
    Dims order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[0], order[1]);
    x = ir::transpose(ir::reshape(x, dims), order);
    if (!layout_.sharded()) return x;
    const mesh::PartitionSpec spec{{{}, mesh::batch_axes(layout_.mesh)}};
    return ir::reshard(x, spec, spec);
  }

  // The same, micro-batch by micro-batch: less memory for activations.
  BatchGradient accumulated(const TrainRows& rows, Value key) const {
    const int64_t parts = options_.accumulate;
    Values sums;
    for (size_t i = 0; i < layout_.params; ++i) {
      if (optimizer_.trainable(i)) sums.push_back(at_rest(ir::zeros(layout_.entries[i].type), i));
    }
    sums.push_back(ir::constant(0));
    sums.push_back(ir::constant(0));
    Values xs = {ir::iota({DType::kI32, {parts}}, 0), micro_batches(rows.images), micro_batches(rows.labels)};
    for (const auto& more : {rows.partner_labels, rows.own_share, rows.boxes}) {
      if (more) xs.push_back(micro_batches(*more));
    }
    const auto body = [&](const Values& carry, const Values& x) {
      TrainRows micro{x[1], x[2], {}, {}, {}};
      size_t next_x = 3;
      if (rows.partner_labels) micro.partner_labels = x[next_x++];
      if (rows.own_share) micro.own_share = x[next_x++];
      if (rows.boxes) micro.boxes = x[next_x++];
      const BatchGradient one = part(micro, ir::fold_in(key, x[0]));
      Values next;
      for (size_t i = 0; i < one.grads.size(); ++i) next.push_back(carry[i] + one.grads[i]);
      next.push_back(carry[next.size()] + one.loss);
      next.push_back(carry[next.size()] + one.correct);
      return ir::ScanResult{next, {}};
    };
    Values total = ir::scan(parts, sums, xs, body).carry;
    BatchGradient out;
    out.correct = total.back(), total.pop_back();
    out.loss = total.back(), total.pop_back();
    out.grads = std::move(total);
    return out;
  }

  const models::Model& model_;
  const StateLayout& layout_;
  const optim::Optimizer& optimizer_;
  const ProgramOptions& options_;
  Values params_;
};

Value pack(const Values& scalars) {
  Values rows;
  for (const Value scalar : scalars) rows.push_back(ir::reshape(scalar, {1}));
  return ir::concatenate(rows, 0);
}

// What a program over the layout's mesh says of its arguments and results.
void spread(ir::EmitOptions& emit, const StateLayout& layout, std::vector<mesh::PartitionSpec> arguments,
            std::vector<mesh::PartitionSpec> results) {
  if (!layout.sharded()) return;
  emit.mesh = layout.mesh;
  emit.argument_specs = std::move(arguments);
  emit.result_specs = std::move(results);
  emit.kernels = {};
}

// The specs of `count` entries, then of `inputs` arrays whose rows are those of the batch.
std::vector<mesh::PartitionSpec> with_batch(const StateLayout& layout, size_t count, size_t inputs) {
  std::vector<mesh::PartitionSpec> specs = layout.specs(count);
  specs.resize(count + inputs, {{mesh::batch_axes(layout.mesh)}});
  return specs;
}

}  // namespace

std::array<uint32_t, 2> seed_key(uint64_t seed) { return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}; }

Program init_program(const std::vector<nn::ParamSpec>& specs, const StateLayout& layout) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Value rng = graph.add_parameter({DType::kU32, {2}}, "rng");
  const Value key = ir::fold_in(rng, "init");
  for (size_t i = 0; i < layout.entries.size(); ++i) {
    graph.results.push_back(i < layout.params         ? nn::initial_value(specs[i], key)
                            : i == layout.rng_index() ? rng
                                                      : ir::zeros(layout.entries[i].type));
  }
  Values moments;
  for (size_t i = 0; i < layout.params; ++i) {
    const Value x = graph.results[i];
    const double share = 1 / static_cast<double>(element_count(x.dims()));
    const Value mean = ir::sum_all(x) * share;
    moments.push_back(mean);
    moments.push_back(ir::sqrt(ir::sum_all(ir::square(x - mean)) * share));
  }
  graph.results.push_back(pack(moments));
  ir::EmitOptions emit{.name = "init"};
  std::vector<mesh::PartitionSpec> results = layout.specs(layout.entries.size());
  results.push_back({});
  spread(emit, layout, {{}}, std::move(results));
  return {"init", ir::emit(graph, emit), {}, /*once=*/true, layout.devices()};
}

Program train_program(const models::Model& model, const StateLayout& layout, const optim::Optimizer& optimizer,
                      const ProgramOptions& options) {
  TESSERA_CHECK(options.accumulate >= 1 && options.batch % options.accumulate == 0);
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Values state = add_arguments(graph, layout, layout.entries.size());
  const Value images = graph.add_parameter(image_type(model, options.batch), "images");
  const Value labels = graph.add_parameter({DType::kI32, {options.batch}}, "labels");
  std::optional<Value> augment;
  if (const int64_t values = options.augmentation.values()) {
    augment = graph.add_parameter({DType::kF32, {options.batch, values}}, "augment");
  }

  const auto params_end = state.begin() + static_cast<ptrdiff_t>(layout.params);
  const Values params(state.begin(), params_end);
  const Values slots(params_end, params_end + static_cast<ptrdiff_t>(layout.slots));
  const Value step = state[layout.step_index()], rng = state[layout.rng_index()];
  const Value key = ir::fold_in(ir::fold_in(rng, "step"), step);

  const TrainRows rows = mix_rows(options.augmentation, images, labels, augment);
  const BatchGradient batch = TrainStep(model, layout, optimizer, options, params).gradient(rows, key);
  const optim::Optimizer::Result update = optimizer.apply(params, batch.grads, slots, step);
  Values differences;
  for (size_t i = 0; i < params.size(); ++i) {
    if (optimizer.trainable(i)) differences.push_back(update.values[i] - params[i]);
  }

  graph.results = update.values;
  graph.results.insert(graph.results.end(), update.slots.begin(), update.slots.end());
  graph.results.push_back(ir::add(step, ir::constant(1, DType::kI32)));
  graph.results.push_back(rng);
  graph.results.push_back(pack(
      {batch.loss, update.grad_norm, ir::global_norm(update.values), ir::global_norm(differences), update.lr, batch.correct}));
  ir::EmitOptions emit{.name = "train_step", .aliases = {}, .kernels = options.kernels};
  std::vector<mesh::PartitionSpec> results = layout.specs(state.size());
  results.push_back({});
  spread(emit, layout, with_batch(layout, state.size(), augment ? 3 : 2), std::move(results));
  Program program{"train_step", {}, {}, false, layout.devices()};
  for (size_t i = 0; i < state.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    emit.aliases.emplace_back(index, index);
    program.donated.push_back(index);
  }
  program.text = ir::emit(graph, emit);
  return program;
}

Program eval_program(const models::Model& model, const StateLayout& layout, const ProgramOptions& options) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Values params = add_arguments(graph, layout, layout.params);
  const Value images = graph.add_parameter(image_type(model, options.batch), "images");
  const Value labels = graph.add_parameter({DType::kI32, {options.batch}}, "labels");
  const Value mask = graph.add_parameter({DType::kF32, {options.batch}}, "mask");
  const Value logits = trace_logits(model, layout, params, normalize(images, options.pixels), {}, options);
  // A padded row may hold anything: its loss is dropped, not multiplied by 0, which would keep a NaN.
  const Value real = ir::compare(ir::Compare::kNe, mask, ir::zeros_like(mask));
  const Value loss = softmax_cross_entropy(logits, labels);
  graph.results = {pack({ir::sum_all(ir::select(real, loss * mask, ir::zeros_like(loss))),
                         ir::sum_all(top_k_correct(logits, labels, 1) * mask),
                         ir::sum_all(top_k_correct(logits, labels, 5) * mask), ir::sum_all(mask)})};
  ir::EmitOptions emit{.name = "evaluate", .aliases = {}, .kernels = options.kernels};
  spread(emit, layout, with_batch(layout, layout.params, 3), {{}});
  return {"evaluate", ir::emit(graph, emit), {}, false, layout.devices()};
}

Program predict_program(const models::Model& model, const StateLayout& layout, const ProgramOptions& options) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const Values params = add_arguments(graph, layout, layout.params);
  const Value images = graph.add_parameter(image_type(model, options.batch), "images");
  graph.results = {trace_logits(model, layout, params, normalize(images, options.pixels), {}, options)};
  ir::EmitOptions emit{.name = "predict", .aliases = {}, .kernels = options.kernels};
  spread(emit, layout, with_batch(layout, layout.params, 1), {{}});
  return {"predict", ir::emit(graph, emit), {}, false, layout.devices()};
}

}  // namespace tessera::train
