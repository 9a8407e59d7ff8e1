#include "host/convolution/convolution.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "host/call.h"
#include "host/convolution/batch_norm.h"
#include "host/convolution/convolution_calls.h"
#include "host/convolution/winograd.h"
#include "host/kernel.h"
#include "host/units/floats.h"
#include "host/units/scratch.h"
#include "ir/attributes.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

// ---- what the window sees

// A line of the window lies in memory as it does in the picture. Its numbers [begin, end) are inside the picture, and begin at
// number `at` of the picture's line.
struct Inside {
  int64_t begin, end, at;
};

Inside inside(const Windows& w, int64_t column) {
  const int64_t first = column * w.stride - w.padding;  // may be negative
  const int64_t begin = std::max<int64_t>(0, -first), end = std::clamp<int64_t>(w.width - first, begin, w.window);
  return {begin * w.channels, end * w.channels, (first + begin) * w.channels};
}

// Numbers [k, k + length) of what it sees at each of `count` places, one place after the other.
template <class Number>
void see(const Windows& w, const Number* x, int64_t place, int64_t count, int64_t k, int64_t length, Number* to) {
  const int64_t rows = w.rows(), columns = w.columns(), line = w.window * w.channels, pitch = w.width * w.channels;
  for (int64_t p = place; p < place + count; ++p) {
    const int64_t column = p % columns, row = p / columns % rows;
    const Number* picture = x + p / columns / rows * w.height * pitch;
    const Inside in = inside(w, column);
    for (int64_t i = k; i < k + length;) {
      const int64_t y = row * w.stride - w.padding + i / line, first = i % line, last = std::min(line, first + k + length - i);
      const int64_t begin = std::clamp(in.begin, first, last), end = std::clamp(in.end, begin, last);
      const bool outside = y < 0 || y >= w.height || begin == end;
      if (outside) {
        std::fill(to, to + (last - first), Number{});
      } else {
        std::fill(to, to + (begin - first), Number{});
        std::memcpy(to + (begin - first), picture + y * pitch + in.at + begin - in.begin,
                    static_cast<size_t>(end - begin) * sizeof(Number));
        std::fill(to + (end - first), to + (last - first), Number{});
      }
      to += last - first;
      i += last - first;
    }
  }
}

// The same of pictures of a dtype; the result stays in `scratch`.
const void* see(const Windows& w, const void* x, DType dtype, int64_t place, int64_t count, int64_t k, int64_t length,
                Scratch& scratch) {
  if (dtype == DType::kF32) {
    auto* to = scratch.get<float>(count * length);
    see(w, static_cast<const float*>(x), place, count, k, length, to);
    return to;
  }
  auto* to = scratch.get<uint16_t>(count * length);
  see(w, static_cast<const uint16_t*>(x), place, count, k, length, to);
  return to;
}

bool sees_pixels(const Windows& w) { return w.window == 1 && w.stride == 1 && w.padding == 0; }

// What it sees at all places, as rows of a product.
LeftSide places(const Windows& w, const void* x, DType dtype) {
  if (sees_pixels(w)) return Operand{x, dtype, w.places(), w.channels, w.channels, 1};
  return {w.places(), w.elements(), [=](int64_t place, int64_t count, int64_t k, int64_t length, Scratch& scratch) -> Operand {
            return {see(w, x, dtype, place, count, k, length, scratch), dtype, count, length, length, 1};
          }};
}

// The transpose of that: sums over places are products.
LeftSide elements(const Windows& w, const void* x, DType dtype) {
  if (sees_pixels(w)) return Operand{x, dtype, w.channels, w.places(), 1, w.channels};
  return {w.elements(), w.places(),
          [=](int64_t element, int64_t count, int64_t place, int64_t length, Scratch& scratch) -> Operand {
            return {see(w, x, dtype, place, length, element, count, scratch), dtype, count, length, 1, count};
          }};
}

// The kernel as the right side of the product.
Operand right_of(const Convolution& c, const void* kernel) {
  return {kernel, c.dtype, c.features, c.windows.elements(), 1, c.features};
}

// ---- the input's gradient

// [window, window, channels, features] -> [window, window, features, channels], turned over in both directions.
template <class Number>
Phase turned(const Convolution& c, const Number* kernel, Number* to) {
  const int64_t taps = c.windows.window * c.windows.window, channels = c.windows.channels, features = c.features;
  return {taps, [=](int64_t tap) {
            const Number* from = kernel + (taps - 1 - tap) * channels * features;
            Number* out = to + tap * channels * features;
            for (int64_t f = 0; f < features; ++f) {
              for (int64_t i = 0; i < channels; ++i) out[f * channels + i] = from[i * features + f];
            }
          }};
}

// Where the window moves in larger steps: dy times the kernel gives a cotangent for everything that the window saw, picture by
// picture and line by line of the window, which are added up where they were seen, always in the same order.
class Spread {
 public:
  Spread(const Convolution& c, const void* dy, const void* kernel, void* dx)
      : c_(c), unit_(unit_for(c.dtype)), dy_(dy), kernel_(kernel), dx_(dx), line_(c.windows.window * c.windows.channels) {}

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) {
    line_bytes_ = unit_.packed_bytes(line_, c_.features);
    packed_ = scratch.get<uint8_t>(c_.windows.window * line_bytes_);
    const auto pack = [this](int64_t y) {
      unit_.pack(kernel_line(y), 0, unit_.panels(line_), 0, unit_.steps(c_.features), packed_ + y * line_bytes_);
    };
    return {{c_.windows.window, pack}, {c_.windows.batch, [this](int64_t picture) { spread(picture); }}};
  }

 private:
  Operand kernel_line(int64_t y) const {
    const auto* at = static_cast<const uint8_t*>(kernel_) + y * line_ * c_.features * element_bytes(c_.dtype);
    return {at, c_.dtype, line_, c_.features, c_.features, 1};
  }

  void spread(int64_t picture) const {
    thread_local Scratch scratch;
    const Windows& w = c_.windows;
    const int64_t places = w.rows() * w.columns(), pitch = w.width * w.channels, pixels = w.height * pitch;
    const bool apart = c_.dtype != DType::kF32;
    auto* seen = scratch.get<float>(places * line_ + (apart ? pixels : 0));
    float* to = apart ? seen + places * line_ : static_cast<float*>(dx_) + picture * pixels;
    std::fill_n(to, pixels, 0.0F);
    const auto* dy = static_cast<const uint8_t*>(dy_) + picture * places * c_.features * element_bytes(c_.dtype);
    const Operand cotangents{dy, c_.dtype, places, c_.features, c_.features, 1};
    for (int64_t line = 0; line < w.window; ++line) {
      const uint8_t* right = packed_ + line * line_bytes_;
      unit_.multiply(cotangents, unit_.part(right, c_.features, line_, 0, unit_.panels(line_)), seen, line_, true);
      for (int64_t row = 0; row < w.rows(); ++row) {
        const int64_t y = row * w.stride - w.padding + line;
        if (y >= 0 && y < w.height) add_line(seen + row * w.columns() * line_, to + y * pitch);
      }
    }
    if (apart) narrow(to, pixels, static_cast<uint16_t*>(dx_) + picture * pixels);
  }

  // What the places of a row saw of a picture's line.
  void add_line(const float* seen, float* line) const {
    for (int64_t column = 0; column < c_.windows.columns(); ++column, seen += line_) {
      const Inside in = inside(c_.windows, column);
      if (in.end > in.begin) add_numbers(seen + in.begin, in.end - in.begin, line + in.at);
    }
  }

  const Convolution c_;
  const Unit& unit_;
  const void *const dy_, *const kernel_;
  void* const dx_;
  const int64_t line_;  // numbers of a line of the window
  int64_t line_bytes_ = 0;
  uint8_t* packed_ = nullptr;
};

void run(LeftSide a, const RightSide& b, Destination to, std::vector<Phase> first, const ParallelFor& parallel,
         Finish finish = nullptr) {
  CallScratch scratch;
  ProductPhases product(unit_for(b.operand.dtype), std::move(a), b, to, std::move(finish));
  product.add_to(first, scratch);
  parallel(first);
}

// The norm of a block of places and features of y.
Finish normalize_blocks(const Convolution& c, const NormAfter* after, void* y) {
  if (!after) return nullptr;
  return [&c, after, y](int64_t row, int64_t rows, int64_t column, int64_t columns, float* sums, int64_t stride) {
    const ColumnNorm& all = after->norm;
    const ColumnNorm norm{all.mean + column, all.factor + column, all.offset + column, all.relu};
    const int64_t first = row * c.features + column;
    if (c.dtype == DType::kBF16) {
      const uint16_t* residual = after->residual ? bf16_at(after->residual, first) : nullptr;
      return normalize_columns({rows, columns}, norm, sums, stride, residual, bf16_at(y, first), c.features);
    }
    const float* residual = after->residual ? static_cast<const float*>(after->residual) + first : nullptr;
    for (int64_t i = 0; i < rows; ++i, sums += stride) {
      normalize_columns({1, columns}, norm, sums, residual ? residual + i * c.features : nullptr, sums);
    }
  };
}

}  // namespace

std::optional<Windows> windows_back(const Convolution& c) {
  const Windows& w = c.windows;
  if (w.stride != 1 || w.padding >= w.window) return std::nullopt;
  return Windows{w.batch, w.rows(), w.columns(), c.features, w.window, 1, w.window - 1 - w.padding};
}

void convolution(const Convolution& c, const void* x, Weights kernel, void* y, const ParallelFor& parallel,
                 const NormAfter* norm) {
  if (takes_winograd(c)) return winograd(c, x, kernel, y, parallel, norm);
  const RightSide right{right_of(c, kernel.data), kernel.packed ? static_cast<const uint8_t*>(kernel.data) : nullptr};
  run(places(c.windows, x, c.dtype), right, {y, c.dtype}, {}, parallel, normalize_blocks(c, norm, y));
}

int64_t packed_convolution_bytes(const Convolution& c) {
  if (takes_winograd(c)) return packed_winograd_bytes(c);
  return packed_operand_bytes(unit_for(c.dtype), c.features, c.windows.elements());
}

void pack_convolution(const Convolution& c, const void* kernel, uint8_t* to, const ParallelFor& parallel) {
  if (takes_winograd(c)) return pack_winograd(c, kernel, to, parallel);
  parallel({pack_operand(unit_for(c.dtype), right_of(c, kernel), to)});
}

void convolution_input_gradient(const Convolution& c, const void* dy, const void* kernel, void* dx,
                                const ParallelFor& parallel) {
  if (takes_winograd(c)) return winograd_input_gradient(c, dy, kernel, dx, parallel);
  CallScratch scratch;
  const std::optional<Windows> back = windows_back(c);
  if (!back) {
    Spread spread(c, dy, kernel, dx);
    return parallel(spread.list(scratch));
  }
  const int64_t channels = c.windows.channels;
  if (back->window == 1) {
    return run(places(*back, dy, c.dtype), Operand{kernel, c.dtype, channels, c.features, c.features, 1}, {dx, c.dtype}, {},
               parallel);
  }
  void* kernel_back = scratch.get<uint8_t>(back->elements() * channels * element_bytes(c.dtype));
  const Phase phase = c.dtype == DType::kF32
                          ? turned(c, static_cast<const float*>(kernel), static_cast<float*>(kernel_back))
                          : turned(c, static_cast<const uint16_t*>(kernel), static_cast<uint16_t*>(kernel_back));
  run(places(*back, dy, c.dtype), Operand{kernel_back, c.dtype, channels, back->elements(), 1, channels}, {dx, c.dtype},
      {phase}, parallel);
}

void convolution_kernel_gradient(const Convolution& c, const void* x, const void* dy, Destination dkernel,
                                 const ParallelFor& parallel) {
  if (takes_winograd(c)) return winograd_kernel_gradient(c, x, dy, dkernel, parallel);
  const Operand right{dy, c.dtype, c.features, c.windows.places(), 1, c.features};
  run(elements(c.windows, x, c.dtype), right, dkernel, {}, parallel);
}

// ---- as calls

namespace {

using ir::Value;
using ir::Values;

// That over x to y; nothing when they, the kernel and the window do not go together.
std::optional<Convolution> convolution_of(const Call& call, const auto& x, const auto& kernel, const auto& y) {
  const auto windows = windows_of(x.dims, y.dims, call.attributes<ir::Window>());
  if (!windows || x.dtype != y.dtype) return std::nullopt;
  const Convolution c{*windows, y.dims[3], x.dtype};
  const int64_t numbers = kernel.dtype == DType::kU8 ? packed_convolution_bytes(c) : windows->elements() * c.features;
  return kernel.has(numbers) ? std::optional(c) : std::nullopt;
}

// A kernel of this dtype, or one that is packed.
std::optional<Weights> weights_of(const CallArray<const void>& kernel, DType dtype) {
  const bool packed = kernel.dtype == DType::kU8;
  return packed || kernel.dtype == dtype ? std::optional(Weights(kernel.data, packed)) : std::nullopt;
}

struct Dense {
  static auto of(const Call& call, const auto& x, const auto& kernel, const auto& y) {
    return convolution_of(call, x, kernel, y);
  }
  static constexpr auto* input_gradient = convolution_input_gradient;
  static constexpr auto* kernel_gradient = convolution_kernel_gradient;
};

bool forward(const Call& call) {
  if (!call.has_floats(2, 1, kRightOperand)) return false;
  const auto x = call.floats(0), kernel = call.floats(kRightOperand);
  const auto y = call.float_result(0);
  const auto c = convolution_of(call, x, kernel, y);
  const std::optional<Weights> weights = weights_of(kernel, x.dtype);
  if (!c || !weights) return false;
  convolution(*c, x.data, *weights, y.data, call.parallel());
  return true;
}

// That of any pictures, by a kernel of these dimensions; nothing when it and the window do not go together.
std::optional<Convolution> convolution_by(std::span<const int64_t> kernel, DType dtype, const ir::Window& window) {
  if (kernel.size() != 4 || kernel[0] != window.window || kernel[1] != window.window) return std::nullopt;
  const Windows any{1, window.window, window.window, kernel[2], window.window, window.stride, window.padding};
  return Convolution{any, kernel[3], dtype};
}

// (kernel) -> the kernel, packed.
bool pack(const Call& call) {
  const auto packed = call.packed();
  const auto window = call.attributes<ir::Window>();
  if (!packed || !window) return false;
  const auto c = convolution_by(packed->from.dims, packed->from.dtype, *window);
  if (!c || packed->bytes != packed_convolution_bytes(*c)) return false;
  pack_convolution(*c, packed->from.data, packed->to, call.parallel());
  return true;
}

// Attributes of a call that does both.
struct NormedConvolution {
  ir::Window window;
  ir::BatchNorm norm;

  template <class Visitor>
  void visit(Visitor&& field) {
    window.visit(field);
    norm.visit(field);
  }
};

// (x, kernel, scale, bias, mean, variance[, residual]) -> y.
bool forward_with_norm(const Call& call) {
  const size_t given = call.arguments();
  const auto attributes = call.attributes<NormedConvolution>();
  if (!attributes || given != (attributes->norm.residual ? 7 : 6) || !call.has_floats(given, 1, kRightOperand)) return false;
  const auto x = call.floats(0), kernel = call.floats(kRightOperand);
  const auto y = call.float_result(0);
  const auto c = convolution_of(call, x, kernel, y);
  const std::optional<Weights> weights = weights_of(kernel, x.dtype);
  if (!c || !weights) return false;
  for (size_t i = 2; i < 6; ++i) {
    if (!call.floats(i).is_f32(c->features)) return false;
  }
  const void* residual = nullptr;
  if (given == 7) {
    if (call.floats(6).dtype != x.dtype || !call.floats(6).has(c->windows.places() * c->features)) return false;
    residual = call.floats(6).data;
  }
  CallScratch scratch;
  float* factor = scratch.get<float>(c->features);
  const ColumnNorm columns{f32(call.floats(4)), factor, f32(call.floats(3)), attributes->norm.relu};
  norm_factors(c->features, attributes->norm.epsilon, f32(call.floats(2)), f32(call.floats(5)), factor);
  const NormAfter norm{columns, residual};
  convolution(*c, x.data, *weights, y.data, call.parallel(), &norm);
  return true;
}

constexpr Function kForward{"convolution", forward}, kInputGradient{"convolution_input_gradient", input_gradient_call<Dense>},
    kKernelGradient{"convolution_kernel_gradient", kernel_gradient_call<Dense>},
    kWithNorm{"convolution_with_norm", forward_with_norm}, kPack{"convolution_weights", pack};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kInputGradient>, kEntry<kKernelGradient>, kEntry<kWithNorm>,
                                kEntry<kPack>};

std::optional<Packing> packing_of(const ir::Node& call) {
  const TensorType& kernel = call.operands[kRightOperand].type();
  const auto window = ir::decode<ir::Window>(ir::call_attributes(call));
  const auto c = convolution_by(kernel.dims, kernel.dtype, window);
  return c ? std::optional(Packing{kPack.name, ir::encode(window), packed_convolution_bytes(*c)}) : std::nullopt;
}
constexpr Preparation kPreparations[] = {{kForward.name, packing_of}, {kWithNorm.name, packing_of}};

// ---- in a graph
// With XLA's code for convolutions on the CPU a step of a ResNet-18 takes 17 times as long.

bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool named = composite.name() == "convolution" || composite.name() == "convolution_gradient";
  const bool dense = named && operands[1].dims[2] == operands[0].dims[3];  // else of several groups
  return dense && (all_f32(operands) || all_bf16(operands)) && devices.can_share(operands[0].dims[0]);
}

Values call_convolution(const ir::Composite& composite, const Values& operands, const Types& results, Selection& selection) {
  return call_with_whole_kernel(composite, operands, results, selection,
                                {kForward.name, kInputGradient.name, kKernelGradient.name});
}

// The call of a convolution whose result, as rows, `x` is; null where it is none.
const ir::Node* call_behind_rows(Value x) {
  if (x.node->op != &ir::kOpReshape) return nullptr;
  const ir::Node* node = x.node->operands[0].node;
  const bool called =
      node->op == &ir::kOpCustomCall && node->attr<std::string>("call_target_name") == call_target(kForward.name);
  return called ? node : nullptr;
}

}  // namespace

std::optional<Value> convolution_with_norm(const ir::BatchNorm& norm, const Values& operands) {
  const ir::Node* call = call_behind_rows(operands[0]);
  if (!call) return std::nullopt;
  ir::AttrDict attributes = ir::call_attributes(*call);
  for (auto& field : ir::encode(norm).fields) attributes.fields.push_back(std::move(field));
  Values arguments = call->operands;
  arguments.insert(arguments.end(), operands.begin() + 1, operands.end());
  const ir::NameScope scope = ir::NameScope::of(*call);
  const Value y = ir::ffi_call(call_target(kWithNorm.name), arguments, call->types, std::move(attributes))[0];
  return ir::reshape(y, operands[0].dims());
}

constinit const Kernel kConvolution{
    .functions = kFunctions, .takes = takes, .call = call_convolution, .preparations = kPreparations};

}  // namespace tessera::host
