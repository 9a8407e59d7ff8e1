#include "host/patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "host/call.h"
#include "host/kernel.h"
#include "ir/manual.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

// Of a line of a patch, which lies as it does in the picture, the part inside: numbers [begin, end) of it, of which the first
// is number `at` of the picture's line.
struct Inside {
  int64_t begin, end, at;
};

Inside inside(const Patches& p, int64_t column) {
  const int64_t first = column * p.stride - p.padding;  // may be negative
  const int64_t begin = std::max<int64_t>(0, -first), end = std::clamp<int64_t>(p.width - first, begin, p.window);
  return {begin * p.channels, end * p.channels, (first + begin) * p.channels};
}

}  // namespace

void patches_f32(const Patches& p, const float* x, float* out, const ParallelFor& parallel) {
  const int64_t rows = p.rows(), columns = p.columns(), line = p.window * p.channels, pitch = p.width * p.channels;
  parallel({{p.batch * rows, [&](int64_t task) {
               const float* picture = x + task / rows * p.height * pitch;
               float* to = out + task * columns * p.elements();
               const int64_t top = task % rows * p.stride - p.padding;
               for (int64_t column = 0; column < columns; ++column) {
                 const Inside in = inside(p, column);
                 for (int64_t y = top; y < top + p.window; ++y, to += line) {
                   if (y < 0 || y >= p.height) {
                     std::fill_n(to, line, 0.0F);
                     continue;
                   }
                   std::fill(to, to + in.begin, 0.0F);
                   std::copy_n(picture + y * pitch + in.at, in.end - in.begin, to + in.begin);
                   std::fill(to + in.end, to + line, 0.0F);
                 }
               }
             }}});
}

void patches_gradient_f32(const Patches& p, const float* dout, float* dx, const ParallelFor& parallel) {
  const int64_t rows = p.rows(), columns = p.columns(), line = p.window * p.channels, pitch = p.width * p.channels;
  parallel({{p.batch * p.height, [&](int64_t task) {
               const float* patches = dout + task / p.height * rows * columns * p.elements();
               float* to = dx + task * pitch;
               std::fill_n(to, pitch, 0.0F);
               // The picture's line is line y of the patches that begin y lines further up.
               for (int64_t y = 0; y < p.window; ++y) {
                 const int64_t first = task % p.height + p.padding - y;
                 if (first < 0 || first % p.stride != 0 || first / p.stride >= rows) continue;
                 const float* from = patches + first / p.stride * columns * p.elements() + y * line;
                 for (int64_t column = 0; column < columns; ++column, from += p.elements()) {
                   const Inside in = inside(p, column);
                   float* sum = to + in.at;
                   for (int64_t i = in.begin; i < in.end; ++i) sum[i - in.begin] += from[i];
                 }
               }
             }}});
}

std::optional<Patches> patches_of(std::span<const int64_t> pictures, std::span<const int64_t> out,
                                  const std::optional<ir::Window>& window, int64_t (Patches::*numbers)() const) {
  if (!window || pictures.size() != 4 || out.size() != 4) return std::nullopt;
  if (window->window < 1 || window->stride < 1 || window->padding < 0) return std::nullopt;
  const Patches p{pictures[0], pictures[1], pictures[2], pictures[3], window->window, window->stride, window->padding};
  const int64_t last = numbers ? (p.*numbers)() : p.channels;
  const bool fits = out[0] == p.batch && out[1] == p.rows() && out[2] == p.columns() && out[3] == last;
  return fits ? std::optional(p) : std::nullopt;
}

// ---- as calls

namespace {

using ir::Value;
using ir::Values;

bool patches(const Call& call) {
  if (!call.has(1, 1)) return false;
  const auto x = call.argument(0);
  const auto out = call.result(0);
  const auto p = patches_of(x.dims, out.dims, call.attributes<ir::Window>(), &Patches::elements);
  if (p) patches_f32(*p, x.data, out.data, call.parallel());
  return p.has_value();
}

bool patches_gradient(const Call& call) {
  if (!call.has(1, 1)) return false;
  const auto dout = call.argument(0);
  const auto dx = call.result(0);
  const auto p = patches_of(dx.dims, dout.dims, call.attributes<ir::Window>(), &Patches::elements);
  if (p) patches_gradient_f32(*p, dout.data, dx.data, call.parallel());
  return p.has_value();
}

// ---- convolutions as products of patches
// With XLA's code for convolutions on the CPU a step of a ResNet-18 takes 17 times as long.

bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool named = composite.name() == "convolution" || composite.name() == "convolution_gradient";
  return named && all_f32(operands) && devices.can_share(operands[0].dims[0]);
}

// One array of the batch into another, each device its own rows.
Value call_on_rows(const char* name, Value x, TensorType out, const ir::Window& window, const Devices& devices) {
  if (devices.mesh) out.dims[0] /= devices.count();
  const auto call = [&](const Values& local) { return ir::ffi_call(call_target(name), local, {out}, ir::encode(window)); };
  return devices.mesh ? ir::shard_map(*devices.mesh, {x}, {0}, call)[0] : call({x})[0];
}

bool sees_pixels(const ir::Window& w) { return w.window == 1 && w.stride == 1 && w.padding == 0; }

// What the window sees at each place of the pictures, in the order of the kernel's elements.
struct Seen {
  Dims dims;   // [batch, h', w', elements]
  Value rows;  // [batch h' w', elements]
};

Seen seen_by(const ir::Window& w, Value x, Selection& selection) {
  const Dims dims = {x.dim(0), w.places(x.dim(1)), w.places(x.dim(2)), w.window * w.window * x.dim(3)};
  Value& rows = selection.patches[{x, fmt::format("{} {} {}", w.window, w.stride, w.padding)}];
  if (!rows) {
    const Value seen = sees_pixels(w) ? x : call_on_rows("patches", x, {DType::kF32, dims}, w, selection.devices);
    rows = ir::reshape(seen, {dims[0] * dims[1] * dims[2], dims[3]});
  }
  return {dims, rows};
}

// The convolution, or its gradient, as products of [places of all pictures, elements of a patch] and [elements, features].
Values call_convolution(const ir::Composite& composite, const Values& operands, const Types& results, Selection& selection) {
  const auto& window = composite.attributes<ir::Window>();
  const Value kernel = operands[1];
  const Seen seen = seen_by(window, operands[0], selection);
  const int64_t elements = seen.rows.dim(1), features = kernel.dim(3);
  const Value weights = ir::reshape(kernel, {elements, features});
  const auto multiply = [](Value a, Value b, const ir::DotDims& dims) {
    return ir::rows_of_batch(ir::dot_general(a, b, dims));
  };
  if (operands.size() == 2) return {ir::reshape(multiply(seen.rows, weights, {{}, {}, {1}, {0}}), results[0].dims)};

  const Value dy = ir::reshape(operands[2], {seen.rows.dim(0), features});
  const Value dseen = ir::reshape(multiply(dy, weights, {{}, {}, {1}, {1}}), seen.dims);
  const Value dx = sees_pixels(window) ? dseen : call_on_rows("patches_gradient", dseen, results[0], window, selection.devices);
  return {dx, ir::reshape(multiply(seen.rows, dy, {{}, {}, {0}, {0}}), kernel.dims())};
}

constexpr Function kForward{"patches", patches}, kBackward{"patches_gradient", patches_gradient};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>};

}  // namespace

constinit const Kernel kPatches{.functions = kFunctions, .takes = takes, .takes_bf16_as_f32 = true, .call = call_convolution};

}  // namespace tessera::host
