// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/convolution/max_pool.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "host/call.h"
#include "host/convolution/max_pool.h"
#include "host/kernel.h"
#include "ir/composites.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

// The part of a window that lies inside its picture: lines [top, bottom), columns [left, right).
struct Seen {
  int64_t top, bottom, left, right;
};

Seen seen_from(const Windows& p, int64_t row, int64_t column) {
  const int64_t top = row * p.stride - p.padding, left = column * p.stride - p.padding;
  return {std::max<int64_t>(0, top), std::min(p.height, top + p.window), std::max<int64_t>(0, left),
          std::min(p.width, left + p.window)};
}

// The largest numbers of a vector of channels, and the places of the first of them, counted over the part that is seen.
template <class D>
struct Largest {
  hn::Vec<D> value, place;
};

template <class D>
HWY_INLINE Largest<D> largest(D d, const Windows& p, const Seen& s, const float* channel) {
  Largest<D> found{hn::Set(d, -std::numeric_limits<float>::infinity()), hn::Zero(d)};
  float place = 0;
  for (int64_t y = s.top; y < s.bottom; ++y) {
    for (int64_t x = s.left; x < s.right; ++x, ++place) {
      const auto value = hn::LoadU(d, channel + (y * p.width + x) * p.channels);
      const auto larger = hn::Or(hn::Gt(value, found.value), hn::IsNaN(value));
      found.value = hn::IfThenElse(larger, value, found.value);
      found.place = hn::IfThenElse(larger, hn::Set(d, place), found.place);
    }
  }
  return found;
}

// Calls work(d, channel) for whole vectors of channels and, one by one, for those that are left.
template <class Work>
HWY_INLINE void each_vector(int64_t channels, const Work& work) {
  const hn::CappedTag<float, 16> wide;
  const auto lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) work(wide, c);
  for (; c < channels; ++c) work(hn::CappedTag<float, 1>(), c);
}

// One line of windows of one picture.
void pool_line(const Windows& p, int64_t row, const float* picture, float* out) {
  for (int64_t column = 0; column < p.columns(); ++column, out += p.channels) {
    const Seen s = seen_from(p, row, column);
    each_vector(p.channels, [&](auto d, int64_t c) { hn::StoreU(largest(d, p, s, picture + c).value, d, out + c); });
  }
}

// Lines [first, last) of one picture's cotangent. Windows that see other lines too are looked through once for each of the two.
void gradient_lines(const Windows& p, int64_t first, int64_t last, const float* picture, const float* dout, float* dpicture) {
  const int64_t line = p.width * p.channels;
  std::fill(dpicture + first * line, dpicture + last * line, 0.0F);
  const int64_t begin = std::max<int64_t>(0, (first + p.padding - p.window) / p.stride);
  for (int64_t row = begin; row < p.rows() && row * p.stride - p.padding < last; ++row) {
    for (int64_t column = 0; column < p.columns(); ++column) {
      const Seen s = seen_from(p, row, column);
      const float* from = dout + (row * p.columns() + column) * p.channels;
      each_vector(p.channels, [&](auto d, int64_t c) {
        const auto found = largest(d, p, s, picture + c);
        const auto cotangent = hn::LoadU(d, from + c);
        float place = 0;
        for (int64_t y = s.top; y < s.bottom; ++y) {
          for (int64_t x = s.left; x < s.right; ++x, ++place) {
            if (y < first || y >= last) continue;
            float* to = dpicture + (y * p.width + x) * p.channels + c;
            const auto share = hn::IfThenElseZero(hn::Eq(found.place, hn::Set(d, place)), cotangent);
            hn::StoreU(hn::Add(hn::LoadU(d, to), share), d, to);
          }
        }
      });
    }
  }
}

}  // namespace

void pool(const Windows& p, int64_t row, const float* picture, float* out) { pool_line(p, row, picture, out); }

void pool_gradient(const Windows& p, int64_t first, int64_t last, const float* picture, const float* dout, float* dpicture) {
  gradient_lines(p, first, last, picture, dout, dpicture);
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(pool);
HWY_EXPORT(pool_gradient);

constexpr int64_t kLines = 16;  // of a picture's cotangent, worked off together

}  // namespace

void max_pool_f32(const Windows& p, const float* x, float* out, const ParallelFor& parallel) {
  const int64_t rows = p.rows(), picture = p.height * p.width * p.channels, line = p.columns() * p.channels;
  parallel({{p.batch * rows, [&](int64_t task) {
               HWY_DYNAMIC_DISPATCH(pool)(p, task % rows, x + task / rows * picture, out + task * line);
             }}});
}

void max_pool_gradient_f32(const Windows& p, const float* x, const float* dout, float* dx, const ParallelFor& parallel) {
  const int64_t picture = p.height * p.width * p.channels, pooled = p.rows() * p.columns() * p.channels;
  const int64_t bands = (p.height + kLines - 1) / kLines;
  parallel({{p.batch * bands, [&](int64_t task) {
               const int64_t b = task / bands, first = task % bands * kLines;
               HWY_DYNAMIC_DISPATCH(pool_gradient)
               (p, first, std::min(p.height, first + kLines), x + b * picture, dout + b * pooled, dx + b * picture);
             }}});
}

// ---- as calls

namespace {

bool max_pool(const Call& call) {
  if (!call.has(1, 1)) return false;
  const auto x = call.argument(0);
  const auto out = call.result(0);
  const auto p = windows_of(x.dims, out.dims, call.attributes<ir::Window>());
  if (!p || out.dims[3] != p->channels) return false;
  max_pool_f32(*p, x.data, out.data, call.parallel());
  return true;
}

bool max_pool_gradient(const Call& call) {
  if (!call.has(2, 1)) return false;
  const auto x = call.argument(0), dout = call.argument(1);
  const auto dx = call.result(0);
  const auto p = windows_of(x.dims, dout.dims, call.attributes<ir::Window>());
  if (!p || dout.dims[3] != p->channels || !dx.same_shape(x)) return false;
  max_pool_gradient_f32(*p, x.data, dout.data, dx.data, call.parallel());
  return true;
}

// XLA's code on the CPU goes through the windows number by number, forward and backward.
bool takes(const ir::Composite& composite, const Types& operands, const Devices& devices) {
  const bool named = composite.name() == "max_pool" || composite.name() == "max_pool_gradient";
  return named && all_f32(operands) && devices.can_share(operands[0].dims[0]);
}

constexpr Function kForward{"max_pool", max_pool}, kBackward{"max_pool_gradient", max_pool_gradient};
constexpr Entry kFunctions[] = {kEntry<kForward>, kEntry<kBackward>};

}  // namespace

constinit const Kernel kMaxPool{.functions = kFunctions, .takes = takes, .takes_bf16_as_f32 = true};

}  // namespace tessera::host
#endif
