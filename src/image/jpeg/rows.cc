// Highway compiles this once for each instruction set.

// SVE's lanes of ReorderDemote2To come in another order; NEON serves there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/jpeg/rows.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <cstring>

#include "image/jpeg/rows.h"
#include "image/pair_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Never called: without vectors there are no samples to convert (blocks.h).
void upsample_columns(const uint8_t*, int, uint8_t*) {}
void upsample_rows(const uint8_t*, const uint8_t*, bool, int, uint8_t*) {}
void upsample_both(const uint8_t*, const uint8_t*, int, uint8_t*) {}
void convert_ycc(const uint8_t*, const uint8_t*, const uint8_t*, int, uint8_t*) {}
void convert_grey(const uint8_t*, int, uint8_t*) {}

#else

using D16 = hn::CappedTag<int16_t, 32>;
using D32 = hn::RepartitionToWide<D16>;
using D8 = hn::Rebind<uint8_t, D16>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr int kLanes = HWY_MAX_BYTES / 2;

HWY_INLINE V16 load(const uint8_t* at) { return hn::PromoteTo(D16(), hn::LoadU(D8(), at)); }
HWY_INLINE V16 set(int value) { return hn::Set(D16(), static_cast<int16_t>(value)); }
HWY_INLINE V8 narrow(V16 v) { return hn::DemoteTo(D8(), v); }

// 3 a + b.
HWY_INLINE V16 blend(V16 a, V16 b) { return hn::Add(hn::Add(a, b), hn::Add(a, a)); }

// (v + rounding) / 2^kShift.
template <int kShift>
HWY_INLINE V8 scale(V16 v, int rounding) {
  return narrow(hn::ShiftRight<kShift>(hn::Add(v, set(rounding))));
}

void upsample_columns(const uint8_t* in, int count, uint8_t* out) {
  for (int i = 0; i < count; i += kLanes) {
    const V16 middle = load(in + i);
    const V8 left = scale<2>(blend(middle, load(in + i - 1)), 1), right = scale<2>(blend(middle, load(in + i + 1)), 2);
    hn::StoreInterleaved2(left, right, D8(), out + 2 * i);
  }
}

void upsample_rows(const uint8_t* near, const uint8_t* far, bool lower, int count, uint8_t* out) {
  for (int i = 0; i < count; i += kLanes) {
    hn::StoreU(scale<2>(blend(load(near + i), load(far + i)), lower ? 2 : 1), D8(), out + i);
  }
}

void upsample_both(const uint8_t* near, const uint8_t* far, int count, uint8_t* out) {
  for (int i = 0; i < count; i += kLanes) {
    const auto column = [&](int at) { return blend(load(near + i + at), load(far + i + at)); };
    const V16 middle = column(0);
    const V8 left = scale<4>(blend(middle, column(-1)), 8), right = scale<4>(blend(middle, column(1)), 7);
    hn::StoreInterleaved2(left, right, D8(), out + 2 * i);
  }
}

// Computes kLanes pixels at a time and writes no more than `count`.
template <class Pixels>
HWY_INLINE void store_pixels(int count, uint8_t* out, Pixels pixels) {
  for (int i = 0; i < count; i += kLanes) {
    V8 r, g, b;
    pixels(i, r, g, b);
    if (i + kLanes <= count) {
      hn::StoreInterleaved3(r, g, b, D8(), out + 3 * i);
    } else {
      uint8_t last[3 * kLanes];
      hn::StoreInterleaved3(r, g, b, D8(), last);
      std::memcpy(out + 3 * i, last, 3 * static_cast<size_t>(count - i));
    }
  }
}

// The constants of JFIF in 16 bits of fraction, less the whole numbers that keep them within 16 bits:
//   r = y + 1.40200 cr,  g = y - 0.34414 cb - 0.71414 cr,  b = y + 1.77200 cb.
void convert_ycc(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* out) {
  constexpr int kRed = 91881 - 65536, kGreenBlue = -22554, kGreenRed = 65536 - 46802, kBlue = 116130 - 2 * 65536;
  const V16 middle = set(128), green_weights = broadcast_pair(D16(), kGreenBlue, kGreenRed);
  const V32 half = hn::Set(D32(), 1 << 15);
  // v times weight / 2^16, rounded.
  const auto product = [](V16 twice, int weight) {
    return hn::ShiftRight<1>(hn::Add(hn::MulHigh(twice, set(weight)), set(1)));
  };
  store_pixels(count, out, [&](int i, V8& r, V8& g, V8& b) {
    const V16 luma = load(y + i), blue = hn::Sub(load(cb + i), middle), red = hn::Sub(load(cr + i), middle);
    const V16 blue2 = hn::Add(blue, blue), red2 = hn::Add(red, red);
    r = narrow(hn::Add(hn::Add(luma, red), product(red2, kRed)));
    b = narrow(hn::Add(hn::Add(luma, blue2), product(blue2, kBlue)));
    const V32 low = add_pair_products(D32(), hn::InterleaveLower(D16(), blue, red), green_weights, half);
    const V32 high = add_pair_products(D32(), hn::InterleaveUpper(D16(), blue, red), green_weights, half);
    const V16 green = hn::ReorderDemote2To(D16(), hn::ShiftRight<16>(low), hn::ShiftRight<16>(high));
    g = narrow(hn::Add(hn::Sub(luma, red), green));
  });
}

void convert_grey(const uint8_t* y, int count, uint8_t* out) {
  store_pixels(count, out, [&](int i, V8& r, V8& g, V8& b) { r = g = b = hn::LoadU(D8(), y + i); });
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {

HWY_EXPORT(upsample_columns);
HWY_EXPORT(upsample_rows);
HWY_EXPORT(upsample_both);
HWY_EXPORT(convert_ycc);
HWY_EXPORT(convert_grey);

}  // namespace

namespace jpeg_rows {

void upsample_columns(const uint8_t* in, int count, uint8_t* out) { HWY_DYNAMIC_DISPATCH(upsample_columns)(in, count, out); }

void upsample_rows(const uint8_t* near, const uint8_t* far, bool lower, int count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(upsample_rows)(near, far, lower, count, out);
}

void upsample_both(const uint8_t* near, const uint8_t* far, int count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(upsample_both)(near, far, count, out);
}

void convert_ycc(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(convert_ycc)(y, cb, cr, count, out);
}

void convert_grey(const uint8_t* y, int count, uint8_t* out) { HWY_DYNAMIC_DISPATCH(convert_grey)(y, count, out); }

}  // namespace jpeg_rows
}  // namespace tessera::image
#endif
