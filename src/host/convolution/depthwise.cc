// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/convolution/depthwise.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "host/call.h"
#include "host/convolution/depthwise.h"
#include "host/kernel.h"
#include "host/units/rows.h"
#include "host/units/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// A vector of channels from `x` on, or, of the last, `count`: zeros follow.
HWY_INLINE V load(const float* x, int64_t count) {
  if (count >= lanes()) return hn::LoadU(D(), x);
  HWY_ALIGN float block[16] = {};
  std::copy_n(x, count, block);
  return hn::Load(D(), block);
}
HWY_INLINE void store(V v, float* x, int64_t count) {
  if (count >= lanes()) return hn::StoreU(v, D(), x);
  HWY_ALIGN float block[16];
  hn::Store(v, D(), block);
  std::copy_n(block, count, x);
}

// What a window at a place of a line sees of the picture's line: its columns [begin, end), the first at `at` of the picture.
struct Inside {
  int64_t begin, end, at;
};
HWY_INLINE Inside inside(int64_t place, int64_t size, const Windows& w) {
  const int64_t first = place * w.stride - w.padding;
  const int64_t begin = std::max<int64_t>(0, -first), end = std::clamp<int64_t>(size - first, begin, w.window);
  return {begin, end, first + begin};
}

constexpr int kPlaces = 8;  // of a line, whose sums stay in registers

// kCount places of a line from `column` on, all of whose windows lie within the picture's columns.
template <int kCount>
HWY_INLINE void places(const Windows& w, const Inside& rows, const float* picture, const float* kernel, int64_t column,
                       int64_t count, float* y) {
  const int64_t pitch = w.width * w.channels, step = w.stride * w.channels;
  V sums[kCount];
  for (V& sum : sums) sum = hn::Zero(D());
  for (int64_t line = rows.begin; line < rows.end; ++line) {
    const float* x = picture + (rows.at + line - rows.begin) * pitch + (column * w.stride - w.padding) * w.channels;
    const float* taps = kernel + line * w.window * w.channels;
    for (int64_t tap = 0; tap < w.window; ++tap, x += w.channels, taps += w.channels) {
      const V factor = load(taps, count);
      for (int i = 0; i < kCount; ++i) sums[i] = hn::MulAdd(load(x + i * step, count), factor, sums[i]);
    }
  }
  for (int i = 0; i < kCount; ++i) store(sums[i], y + (column + i) * w.channels, count);
}

HWY_INLINE void edge_place(const Windows& w, const Inside& rows, const float* picture, const float* kernel, int64_t column,
                           int64_t count, float* y) {
  const Inside columns = inside(column, w.width, w);
  V sum = hn::Zero(D());
  for (int64_t line = rows.begin; line < rows.end; ++line) {
    const float* x = picture + ((rows.at + line - rows.begin) * w.width + columns.at) * w.channels;
    const float* taps = kernel + (line * w.window + columns.begin) * w.channels;
    for (int64_t tap = columns.begin; tap < columns.end; ++tap, x += w.channels, taps += w.channels) {
      sum = hn::MulAdd(load(x, count), load(taps, count), sum);
    }
  }
  store(sum, y + column * w.channels, count);
}

// The sums of kCount taps of a line of the window over a line of places.
template <int kCount>
HWY_INLINE void taps(const Windows& w, const float* x, const float* dy, int64_t tap, int64_t count, float* dkernel) {
  const int64_t step = w.stride * w.channels;
  V sums[kCount];
  for (int i = 0; i < kCount; ++i) sums[i] = load(dkernel + (tap + i) * w.channels, count);
  for (int64_t column = 0; column < w.columns(); ++column) {
    const int64_t first = column * w.stride - w.padding + tap;
    const V cotangent = load(dy + column * w.channels, count);
    const float* at = x + (column * step + (tap - w.padding) * w.channels);
    if (first >= 0 && first + kCount <= w.width) {
      for (int i = 0; i < kCount; ++i) sums[i] = hn::MulAdd(load(at + i * w.channels, count), cotangent, sums[i]);
    } else {
      for (int i = 0; i < kCount; ++i) {
        if (first + i >= 0 && first + i < w.width) sums[i] = hn::MulAdd(load(at + i * w.channels, count), cotangent, sums[i]);
      }
    }
  }
  for (int i = 0; i < kCount; ++i) store(sums[i], dkernel + (tap + i) * w.channels, count);
}

}  // namespace

// A line of places of one picture.
void line(const Windows& w, int64_t row, const float* picture, const float* kernel, float* y) {
  const Inside rows = inside(row, w.height, w);
  const int64_t left = std::min(w.columns(), (w.padding + w.stride - 1) / w.stride);
  const int64_t whole = w.width + w.padding - w.window;  // the last that lies within starts here
  const int64_t right = std::clamp<int64_t>(whole < 0 ? 0 : whole / w.stride + 1, left, w.columns());
  for (int64_t c = 0; c < w.channels; c += lanes()) {
    const int64_t count = w.channels - c;
    int64_t column = 0;
    const auto edges = [&](int64_t end) {
      for (; column < end; ++column) edge_place(w, rows, picture + c, kernel + c, column, count, y + c);
    };
    edges(left);
    for (; column + kPlaces <= right; column += kPlaces)
      places<kPlaces>(w, rows, picture + c, kernel + c, column, count, y + c);
    edges(w.columns());
  }
}

// Adds to the kernel's gradient what a line of places gives.
void line_gradient(const Windows& w, int64_t row, const float* picture, const float* dy, float* dkernel) {
  const Inside rows = inside(row, w.height, w);
  for (int64_t c = 0; c < w.channels; c += lanes()) {
    for (int64_t line = rows.begin; line < rows.end; ++line) {
      const float* x = picture + (rows.at + line - rows.begin) * w.width * w.channels + c;
      float* to = dkernel + line * w.window * w.channels + c;
      int64_t tap = 0;
      for (; tap + 7 <= w.window; tap += 7) taps<7>(w, x, dy + c, tap, w.channels - c, to);
      for (; tap + 3 <= w.window; tap += 3) taps<3>(w, x, dy + c, tap, w.channels - c, to);
      for (; tap < w.window; ++tap) taps<1>(w, x, dy + c, tap, w.channels - c, to);
    }
  }
}

// A line of a picture's gradient, where the window moves in any steps.
void spread_line(const Windows& w, int64_t y, const float* dy, const float* kernel, float* dx) {
  for (int64_t c = 0; c < w.channels; c += lanes()) {
    const int64_t count = w.channels - c;
    for (int64_t x = 0; x < w.width; ++x) {
      V sum = hn::Zero(D());
      for (int64_t line = 0; line < w.window; ++line) {
        const int64_t row = y + w.padding - line;
        if (row < 0 || row % w.stride != 0 || row / w.stride >= w.rows()) continue;
        for (int64_t tap = 0; tap < w.window; ++tap) {
          const int64_t column = x + w.padding - tap;
          if (column < 0 || column % w.stride != 0 || column / w.stride >= w.columns()) continue;
          const float* from = dy + (row / w.stride * w.columns() + column / w.stride) * w.channels + c;
          sum = hn::MulAdd(load(from, count), load(kernel + (line * w.window + tap) * w.channels + c, count), sum);
        }
      }
      store(sum, dx + x * w.channels + c, count);
    }
  }
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(line);
HWY_EXPORT(line_gradient);
HWY_EXPORT(spread_line);

int64_t picture_size(const Windows& w) { return w.height * w.width * w.channels; }
int64_t line_size(const Windows& w) { return w.columns() * w.channels; }

}  // namespace

void depthwise_f32(const Windows& w, const float* x, const float* kernel, float* y, const ParallelFor& parallel) {
  parallel({{w.batch * w.rows(), [&](int64_t task) {
               const int64_t picture = task / w.rows(), row = task % w.rows();
               HWY_DYNAMIC_DISPATCH(line)(w, row, x + picture * picture_size(w), kernel, y + task * line_size(w));
             }}});
}

void depthwise_input_gradient_f32(const Windows& w, const float* dy, const float* kernel, float* dx,
                                  const ParallelFor& parallel) {
  CallScratch scratch;
  if (w.stride == 1 && w.padding < w.window) {
    // A convolution with the kernel turned over in both directions.
    const int64_t taps = w.window * w.window;
    float* turned = scratch.get<float>(taps * w.channels);
    for (int64_t tap = 0; tap < taps; ++tap) {
      std::copy_n(kernel + (taps - 1 - tap) * w.channels, w.channels, turned + tap * w.channels);
    }
    return depthwise_f32({w.batch, w.rows(), w.columns(), w.channels, w.window, 1, w.window - 1 - w.padding}, dy, turned, dx,
                         parallel);
  }
  parallel({{w.batch * w.height, [&](int64_t task) {
               const float* cotangents = dy + task / w.height * w.rows() * line_size(w);
               HWY_DYNAMIC_DISPATCH(spread_line)(w, task % w.height, cotangents, kernel, dx + task * w.width * w.channels);
             }}});
}

void depthwise_kernel_gradient_f32(const Windows& w, const float* x, const float* dy, float* dkernel,
                                   const ParallelFor& parallel) {
  constexpr int64_t kMaxParts = 16;  // of all lines: each has sums of its own, which are added up in their order
  CallScratch scratch;
  const int64_t size = w.window * w.window * w.channels, lines = w.batch * w.rows();
  const int64_t parts = std::min(kMaxParts, std::max<int64_t>(1, lines));
  float* sums = scratch.get<float>(parts * size);
  const Phase lines_of_part{parts, [&](int64_t part) {
                              float* to = sums + part * size;
                              std::fill_n(to, size, 0.0F);
                              for (int64_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
                                HWY_DYNAMIC_DISPATCH(line_gradient)
                                (w, i % w.rows(), x + i / w.rows() * picture_size(w), dy + i * line_size(w), to);
                              }
                            }};
  const Phase all_parts{1, [&](int64_t) {
                          std::copy_n(sums, size, dkernel);
                          for (int64_t part = 1; part < parts; ++part) add_numbers(sums + part * size, size, dkernel);
                        }};
  parallel({lines_of_part, all_parts});
}

// ---- as calls

namespace {

using ir::Values;

// The windows over x that give y; nothing when x, y, the kernel and the call's window do not fit together.
std::optional<Windows> windows_of(const Call& call, const auto& x, const auto& kernel, const auto& y) {
  const auto w = host::windows_of(x.dims, y.dims, call.attributes<ir::Window>());
  return w && y.dims[3] == w->channels && kernel.has(w->elements()) ? w : std::nullopt;
}

bool forward(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto x = call.argument(0), kernel = call.argument(1);
  const auto y = call.result(0);
  const auto w = windows_of(call, x, kernel, y);
  if (w) depthwise_f32(*w, x.data, kernel.data, y.data, call.parallel());
  return w.has_value();
}

bool input_gradient(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto dy = call.argument(0), kernel = call.argument(1);
  const auto dx = call.result(0);
  const auto w = windows_of(call, dx, kernel, dy);
  if (w) depthwise_input_gradient_f32(*w, dy.data, kernel.data, dx.data, call.parallel());
  return w.has_value();
}

bool kernel_gradient(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto x = call.argument(0), dy = call.argument(1);
  const auto dkernel = call.result(0);
  const auto w = windows_of(call, x, dkernel, dy);
  if (w) depthwise_kernel_gradient_f32(*w, x.data, dy.data, dkernel.data, call.parallel());
  return w.has_value();
}

constexpr Function kForward{"depthwise", forward}, kInputGradient{"depthwise_input_gradient", input_gradient},
    kKernelGradient{"depthwise_kernel_gradient", kernel_gradient};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kInputGradient>, kEntry<kKernelGradient>};

// XLA's code on the CPU takes such a convolution number by number.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool named = composite.name() == "depthwise" || composite.name() == "depthwise_gradient";
  return named && all_f32(operands) && devices.can_share(operands[0].dims[0]);
}

Values call_depthwise(const ir::Composite& composite, const Values& operands, const Types& results, Selection& selection) {
  return call_with_whole_kernel(composite, operands, results, selection,
                                {kForward.name, kInputGradient.name, kKernelGradient.name});
}

}  // namespace

constinit const Kernel kDepthwise{.functions = kFunctions, .takes = takes, .takes_bf16_as_f32 = true, .call = call_depthwise};

}  // namespace tessera::host
#endif
