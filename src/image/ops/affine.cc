// The vector code of affine.h: bilinear and bicubic. Highway compiles it once for each instruction set and picks one when the
// program runs.

// Vectors without a size of their own can't be members.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/ops/affine.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "image/ops/affine.h"
#include "image/ops/affine_nearest.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, 8>;
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

// Along which axes there is anything to interpolate: the fraction of the other one is zero everywhere.
enum class Axes { kAcross, kDown, kBoth };

struct Pixels {
  V r, g, b;
};

// The pixels at byte offsets from `base`; reads four bytes for each.
HWY_INLINE VI load_pixels(const uint8_t* base, VI offsets) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && HWY_TARGET != HWY_SCALAR
  return hn::GatherOffset(DI(), reinterpret_cast<const int32_t*>(base), offsets);
#else
  HWY_ALIGN int32_t at[hn::MaxLanes(DI())], words[hn::MaxLanes(DI())];
  hn::Store(offsets, DI(), at);
  for (size_t i = 0; i < hn::Lanes(DI()); ++i) std::memcpy(words + i, base + at[i], 4);
  return hn::Load(DI(), words);
#endif
}

HWY_INLINE Pixels unpack(VI words) {
  const VI byte = hn::Set(DI(), 255);
  const auto channel = [&](VI shifted) HWY_ATTR { return hn::PromoteTo(D(), hn::And(shifted, byte)); };
  return {channel(words), channel(hn::ShiftRight<8>(words)), channel(hn::ShiftRight<16>(words))};
}

HWY_INLINE V lerp(V a, V b, V d) { return hn::Add(a, hn::Mul(hn::Sub(b, a), d)); }

HWY_INLINE V cubic(V v1, V v2, V v3, V v4, V d) {
  const V p2 = hn::Sub(v3, v1);
  const V p3 = hn::Sub(hn::Add(hn::Mul(hn::Set(D(), 2), hn::Sub(v1, v2)), v3), v4);
  const V p4 = hn::Add(hn::Sub(hn::Sub(v2, v1), v3), v4);
  return hn::Add(v2, hn::Mul(d, hn::Add(p2, hn::Mul(d, hn::Add(p3, hn::Mul(d, p4))))));
}

HWY_INLINE Pixels lerp(const Pixels& a, const Pixels& b, V d) {
  return {lerp(a.r, b.r, d), lerp(a.g, b.g, d), lerp(a.b, b.b, d)};
}

HWY_INLINE Pixels cubic(const Pixels& a, const Pixels& b, const Pixels& c, const Pixels& e, V d) {
  return {cubic(a.r, b.r, c.r, e.r, d), cubic(a.g, b.g, c.g, e.g, d), cubic(a.b, b.b, c.b, e.b, d)};
}

// Interpolates between kTaps neighbours; number kBefore is the one before the point.
template <Filter kFilter>
struct Kernel {
  static constexpr int kTaps = kFilter == Filter::kBilinear ? 2 : 4, kBefore = kTaps / 2 - 1;

  template <class Tap>
  static HWY_INLINE Pixels apply(const Tap& tap, V d) {
    if constexpr (kFilter == Filter::kBilinear) {
      return lerp(tap(0), tap(1), d);
    } else {
      return cubic(tap(0), tap(1), tap(2), tap(3), d);
    }
  }
};

template <Filter kFilter, Axes kAxes>
class Sampler {
 public:
  Sampler(const Image& from, const Rgb& fill)
      : base_(from.row(0)),
        last_x_(hn::Set(DI(), from.width() - 1)),
        last_y_(hn::Set(DI(), from.height() - 1)),
        stride_(hn::Set(DI(), static_cast<int32_t>(from.stride()))),
        width_(hn::Set(D(), from.width())),
        height_(hn::Set(D(), from.height())),
        fill_{hn::Set(D(), fill[0]), hn::Set(D(), fill[1]), hn::Set(D(), fill[2])} {}

  // Four bytes a pixel, the fourth zero.
  HWY_INLINE VI sample(V x, V y) const {
    const V zero = hn::Zero(D());
    const auto inside = hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width_)), hn::And(hn::Ge(y, zero), hn::Lt(y, height_)));
    const Pixels value = interpolate(hn::Sub(x, hn::Set(D(), 0.5)), hn::Sub(y, hn::Set(D(), 0.5)));
    const auto whole = [&](V v, V outside) HWY_ATTR {
      const V clamped = hn::Min(hn::Max(v, zero), hn::Set(D(), 255));
      return hn::DemoteTo(DI(), hn::IfThenElse(inside, clamped, outside));
    };
    return hn::Or(whole(value.r, fill_.r),
                  hn::Or(hn::ShiftLeft<8>(whole(value.g, fill_.g)), hn::ShiftLeft<16>(whole(value.b, fill_.b))));
  }

 private:
  using K = Kernel<kFilter>;

  HWY_INLINE Pixels interpolate(V x, V y) const {
    const V left = hn::Floor(x), top = hn::Floor(y);
    const VI column = hn::DemoteTo(DI(), left), line = hn::DemoteTo(DI(), top);
    const auto offset_x = [&](int tap) HWY_ATTR {
      const VI at = clamp(hn::Add(column, hn::Set(DI(), tap)), last_x_);
      return hn::Add(hn::Add(at, at), at);
    };
    const auto offset_y = [&](int tap) HWY_ATTR { return hn::Mul(clamp(hn::Add(line, hn::Set(DI(), tap)), last_y_), stride_); };
    const auto pixels = [&](VI across, VI down) HWY_ATTR { return unpack(load_pixels(base_, hn::Add(across, down))); };
    const V dx = hn::Sub(x, left), dy = hn::Sub(y, top);
    if constexpr (kAxes == Axes::kDown) {
      const VI at = offset_x(0);
      return K::apply([&](int t) HWY_ATTR { return pixels(at, offset_y(t - K::kBefore)); }, dy);
    } else {
      VI across[K::kTaps];
      for (int t = 0; t < K::kTaps; ++t) across[t] = offset_x(t - K::kBefore);
      const auto row = [&](VI down) HWY_ATTR { return K::apply([&](int t) HWY_ATTR { return pixels(across[t], down); }, dx); };
      if constexpr (kAxes == Axes::kAcross) return row(offset_y(0));
      return K::apply([&](int t) HWY_ATTR { return row(offset_y(t - K::kBefore)); }, dy);
    }
  }

  static HWY_INLINE VI clamp(VI value, VI last) { return hn::Min(hn::Max(value, hn::Zero(DI())), last); }

  const uint8_t* base_;
  VI last_x_, last_y_, stride_;
  V width_, height_;
  Pixels fill_;
};

// Writes left to right, four bytes a pixel, so that the last pixel of a row spills into the next one, which follows.
template <Filter kFilter, Axes kAxes>
HWY_INLINE void transform_rows(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  const Sampler<kFilter, kAxes> sampler(from, fill);
  const size_t lanes = hn::Lanes(D());
  const auto width = static_cast<size_t>(to.width());
  HWY_ALIGN int32_t words[hn::MaxLanes(DI())];
  const auto place = [](double along, V x, double across, double offset) HWY_ATTR {
    return hn::Add(hn::Add(hn::Mul(hn::Set(D(), along), x), hn::Set(D(), across)), hn::Set(D(), offset));
  };
  for (int y = 0; y < to.height(); ++y) {
    uint8_t* out = to.row(y);
    const double yc = y + 0.5, bx = m[1] * yc, by = m[4] * yc;
    for (size_t x = 0; x < width; x += lanes) {
      const V xc = hn::Add(hn::Iota(D(), static_cast<double>(x)), hn::Set(D(), 0.5));
      hn::Store(sampler.sample(place(m[0], xc, bx, m[2]), place(m[3], xc, by, m[5])), DI(), words);
      const size_t count = std::min(lanes, width - x);
      for (size_t i = 0; i < count; ++i, out += 3) std::memcpy(out, words + i, 4);
    }
  }
}

template <Filter kFilter>
HWY_INLINE void transform_axes(const Image& from, const AffineMatrix& m, const Rgb& fill, Image& to) {
  if (m[3] == 0 && m[4] == 1 && m[5] == 0) return transform_rows<kFilter, Axes::kAcross>(from, m, fill, to);
  if (m[0] == 1 && m[1] == 0 && m[2] == 0) return transform_rows<kFilter, Axes::kDown>(from, m, fill, to);
  transform_rows<kFilter, Axes::kBoth>(from, m, fill, to);
}

void transform_smoothly(const Image& from, const AffineMatrix& matrix, Filter filter, const Rgb& fill, Image& to) {
  if (filter == Filter::kBilinear) return transform_axes<Filter::kBilinear>(from, matrix, fill, to);
  transform_axes<Filter::kBicubic>(from, matrix, fill, to);
}

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {
HWY_EXPORT(transform_smoothly);
}

void transform_affine(const Image& from, const AffineMatrix& matrix, Filter filter, const Rgb& fill, Image& to) {
  TESSERA_CHECK(&from != &to && from.width() == to.width() && from.height() == to.height());
  if (filter == Filter::kNearest) return transform_nearest(from, matrix, fill, to);
  TESSERA_CHECK(filter == Filter::kBilinear || filter == Filter::kBicubic, "{}", filter_name(filter));
  HWY_DYNAMIC_DISPATCH(transform_smoothly)(from, matrix, filter, fill, to);
}

}  // namespace tessera::image
#endif  // HWY_ONCE
