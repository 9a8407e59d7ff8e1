#include "train/step/trace.h"

#include <map>
#include <optional>

#include "base/error.h"
#include "host/target.h"
#include "ir/functions.h"
#include "ir/program/gpu_target.h"
#include "ir/program/program.h"
#include "train/step/by_device.h"

namespace tessera::train {

using ir::Value;
using ir::Values;

namespace {

// The buffers of the layout after a trace that may have set them.
Values updated_buffers(const state::StateLayout& layout, const Values& params, nn::ParamStore& store) {
  std::map<std::string, Value> updates;
  for (const nn::BufferUpdate& update : store.updates()) updates["params/" + update.name] = update.value;
  Values buffers;
  for (size_t i = 0; i < layout.params; ++i) {
    const state::StateEntry& entry = layout.entries[i];
    if (entry.trained) continue;
    const auto found = updates.find(entry.name);
    buffers.push_back(found == updates.end() ? ir::current_graph().adopt(params[i]) : found->second);
    if (layout.sharded()) buffers.back() = ir::reshard(buffers.back(), entry.spec, entry.spec);
  }
  return buffers;
}

}  // namespace

TensorType image_batch(const models::Model& model, int64_t rows, const Dims& size) {
  const models::InputShape& in = model.input();
  return {DType::kU8, {rows, size.empty() ? in.height : size[0], size.empty() ? in.width : size[1], 3}};
}

Value luminance(Value images) {
  // Whole numbers below 2^24, so that f32 has them exactly, in whatever order they are added up.
  const Value parts = ir::convert(images, DType::kF32) * ir::constant_f32({3}, {19595, 38470, 7471});
  const Value sum = ir::reshape(ir::sum(parts, {3}), {images.dim(0), images.dim(1), images.dim(2), 1});
  return ir::floor((sum + 32768.0) * (1.0 / 65536));
}

Value rescale(Value numbers, const data::PixelScale& pixels) {
  TESSERA_CHECK(numbers.dim(-1) == pixels.channels(), "{} channels", numbers.dim(-1));
  const auto row = [&](const std::array<float, 3>& values) {
    return ir::constant_f32({pixels.channels()}, std::vector<float>(values.begin(), values.begin() + pixels.channels()));
  };
  return numbers * row(pixels.scale) + row(pixels.offset);
}

Value normalize(Value images, const data::PixelScale& pixels) {
  TESSERA_CHECK(images.dim(-1) == 3, "{} channels", images.dim(-1));
  return rescale(pixels.grey ? luminance(images) : ir::convert(images, DType::kF32), pixels);
}

Values with_buffers(const state::StateLayout& layout, Values params, const Values& buffers) {
  for (size_t i = 0, b = 0; i < layout.params; ++i) {
    if (!layout.entries[i].trained) params[i] = buffers[b++];
  }
  return params;
}

std::unique_ptr<const ir::Target> target_of(const ProgramOptions& options, const state::StateLayout& layout) {
  const auto mesh = layout.sharded() ? std::optional(layout.mesh) : std::nullopt;
  const Hardware& hardware = options.hardware;
  if (hardware.gpus) return std::make_unique<ir::GpuTarget>(mesh, hardware.cudnn_works, options.keeps_activations);
  host::Devices devices{.mesh = mesh, .one_of_many = options.processes > 1, .that_meet = options.devices_that_meet};
  return std::make_unique<host::Target>(hardware.kernels, std::move(devices));
}

Program program_of(const ir::Graph& graph, const ir::EmitOptions& emit, const state::StateLayout& layout,
                   const ProgramOptions& options) {
  const auto target = emit.by_device ? device_target(layout, options) : target_of(options, layout);
  Program program{.name = emit.name,
                  .text = ir::program_text(graph, emit, target.get()),
                  .devices = layout.devices(),
                  .optimization_level = options.optimization_level};
  for (const auto& [argument, result] : emit.aliases) program.donated.push_back(argument);
  program.calls_cudnn = program.text.find(ir::kCudnnAttention) != std::string::npos;
  return program;
}

Program inference_program(const ir::Graph& graph, const ir::EmitOptions& emit, const state::StateLayout& layout,
                          const ProgramOptions& options) {
  // Of parameters: what is packed of fewer takes less time than another program takes to load.
  constexpr int64_t kWorthwhile = int64_t{8} << 20;  // bytes
  int64_t bytes = 0;
  for (size_t i = 0; i < layout.params; ++i) bytes += byte_count(layout.entries[i].type);
  const bool whole = options.one_call || options.hardware.kernels.empty() || layout.sharded() || bytes < kWorthwhile;
  if (whole) return program_of(graph, emit, layout, options);
  ir::SplitText text = ir::split_program_text(graph, emit, layout.params, *target_of(options, layout));
  if (text.prepare.empty()) return program_of(graph, emit, layout, options);
  return {.name = emit.name,
          .text = std::move(text.run),
          .devices = layout.devices(),
          .optimization_level = options.optimization_level,
          .donated = std::move(text.donated),
          .prepare = std::move(text.prepare),
          .kept = std::move(text.kept)};
}

Values trace(const state::StateLayout& layout, const Values& params, nn::Context context, const ProgramOptions& options,
             const std::function<Values(const nn::Scope&)>& apply, Values* buffers) {
  ir::Graph& graph = ir::current_graph();
  nn::ParamStore store(graph);
  const size_t prefix = std::string_view("params/").size();
  for (size_t i = 0; i < layout.params; ++i) store.provide(layout.entries[i].name.substr(prefix), graph.adopt(params[i]));
  const nn::Sharding sharding = state::sharding_of(layout);
  context.compute = options.compute;
  if (layout.sharded()) context.sharding = &sharding;
  const auto target = target_of(options, layout);
  context.target = target.get();
  const ir::NameScope named("model");
  Values out = apply(nn::Scope(store, context));
  for (const nn::ParamSpec& spec : store.specs()) {
    TESSERA_CHECK(store.provides(spec.name), "the layout has no parameter {}", spec.name);
  }
  if (buffers) *buffers = updated_buffers(layout, params, store);
  return out;
}

}  // namespace tessera::train
