#pragma once
// A model in the current graph, with the parameters of a layout, and traced graphs as programs.

#include <functional>
#include <memory>

#include "data/transform/pp.h"
#include "ir/ops.h"
#include "ir/program/emit.h"
#include "ir/program/target.h"
#include "models/model.h"
#include "nn/scope.h"
#include "state/state.h"
#include "train/step/program.h"

namespace tessera::train {

// A model's images as a program takes them: bytes in RGB, [rows, H, W, 3]. `size`: H and W; empty: those that the model takes.
TensorType image_batch(const models::Model& model, int64_t rows, const Dims& size = {});

// Such bytes -> numbers of the model's channels, f32.
ir::Value normalize(ir::Value images, const data::PixelScale& pixels);
// Numbers of the model's channels, scaled.
ir::Value rescale(ir::Value numbers, const data::PixelScale& pixels);
// Bytes in RGB, [rows, H, W, 3] -> their luminance as Pillow's convert("L") rounds it: 0..255, f32 [rows, H, W, 1].
ir::Value luminance(ir::Value images);

// `params` with `buffers` in the places of the layout's buffers.
ir::Values with_buffers(const state::StateLayout& layout, ir::Values params, const ir::Values& buffers);

// What the programs of a layout are for: GPUs, or this host, where they may call its kernels.
std::unique_ptr<const ir::Target> target_of(const ProgramOptions& options, const state::StateLayout& layout);

// A traced graph as a program of this layout.
Program program_of(const ir::Graph& graph, const ir::EmitOptions& emit, const state::StateLayout& layout,
                   const ProgramOptions& options);
// The same of one that uses a model: its first arguments, the layout's parameters, are the same in many calls. Where this host's
// kernels make much of them alone, that is a program of its own (Program::prepare).
Program inference_program(const ir::Graph& graph, const ir::EmitOptions& emit, const state::StateLayout& layout,
                          const ProgramOptions& options);

// What `apply` makes of the model in the current graph, whose parameters are `params` (all of the layout's). In training,
// `buffers` gets what the layout's buffers become, in its order.
ir::Values trace(const state::StateLayout& layout, const ir::Values& params, nn::Context context, const ProgramOptions& options,
                 const std::function<ir::Values(const nn::Scope&)>& apply, ir::Values* buffers = nullptr);

}  // namespace tessera::train
