// Highway compiles this once for each instruction set and picks one when the program runs.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resize/tensorflow_bilinear.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include "image/resize/tensorflow_bilinear.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void linear_row(const uint8_t* above, const uint8_t* below, float part, const LinearTap* columns, size_t width, uint8_t* out) {
  for (size_t i = 0; i < width * 3; ++i) {
    const LinearTap& tap = columns[i / 3];
    const size_t channel = i % 3;
    const auto lerp = [&](const uint8_t* row) {
      const float a = row[static_cast<size_t>(tap.lower) * 3 + channel], b = row[static_cast<size_t>(tap.upper) * 3 + channel];
      return a + (b - a) * tap.part;
    };
    const float top = lerp(above), bottom = lerp(below);
    out[i] = static_cast<uint8_t>(top + (bottom - top) * part);
  }
}

#else

using D = hn::CappedTag<float, 4>;  // a pixel's channels, and the next byte
using V = hn::Vec<D>;

HWY_INLINE V load_pixel(const uint8_t* at) {
  const hn::Rebind<uint8_t, D> bytes;
  const hn::RebindToSigned<D> ints;
  return hn::ConvertTo(D(), hn::PromoteTo(ints, hn::LoadU(bytes, at)));
}

HWY_INLINE V lerp(V a, V b, V part) { return hn::Add(a, hn::Mul(hn::Sub(b, a), part)); }

void linear_row(const uint8_t* above, const uint8_t* below, float part, const LinearTap* columns, size_t width, uint8_t* out) {
  const hn::Rebind<uint8_t, D> bytes;
  const hn::RebindToSigned<D> ints;
  const V down = hn::Set(D(), part);
  for (size_t x = 0; x < width; ++x, out += 3) {
    const LinearTap& tap = columns[x];
    const V across = hn::Set(D(), tap.part);
    const V top = lerp(load_pixel(above + tap.lower * 3), load_pixel(above + tap.upper * 3), across);
    const V bottom = lerp(load_pixel(below + tap.lower * 3), load_pixel(below + tap.upper * 3), across);
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(ints, lerp(top, bottom, down))), bytes, out);
  }
}

#endif

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {
HWY_EXPORT(linear_row);
}

void bilinear_row(const uint8_t* above, const uint8_t* below, float part, const LinearTap* columns, size_t width,
                  uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(linear_row)(above, below, part, columns, width, out);
}

}  // namespace tessera::image
#endif  // HWY_ONCE
