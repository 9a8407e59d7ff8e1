// The vector code of pixels.h. Highway compiles it once for each instruction set and picks one when the program runs.

#define HWY_WANT_AVX3_DL  // AVX-512 with byte permutations: Ice Lake, Zen 4 and later
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/ops/pixels.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "image/ops/pixels.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU8 = hn::Rebind<uint8_t, DF>;  // as many bytes as a vector has floats
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU8 = hn::Vec<DU8>;

HWY_INLINE VI to_int(VU8 bytes) { return hn::PromoteTo(DI(), bytes); }
HWY_INLINE VF to_float(VI values) { return hn::ConvertTo(DF(), values); }
// Cuts the fraction off and clamps.
HWY_INLINE VU8 to_bytes(VF values) { return hn::DemoteTo(DU8(), hn::ConvertTo(DI(), values)); }
HWY_INLINE VF blended(VF a, VF b, VF alpha) { return hn::Add(a, hn::Mul(alpha, hn::Sub(b, a))); }

void blend_bytes(const uint8_t* a, const uint8_t* b, float alpha, size_t count, uint8_t* out) {
  const DU8 d;
  const VF factor = hn::Set(DF(), alpha);
  const auto step = [&](const uint8_t* at_a, const uint8_t* at_b, uint8_t* to) HWY_ATTR {
    const VF va = to_float(to_int(hn::LoadU(d, at_a))), vb = to_float(to_int(hn::LoadU(d, at_b)));
    hn::StoreU(to_bytes(blended(va, vb, factor)), d, to);
  };
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(a + i, b + i, out + i);
  if (i == count) return;
  uint8_t last[3][hn::MaxLanes(d)] = {};
  std::memcpy(last[0], a + i, count - i);
  std::memcpy(last[1], b + i, count - i);
  step(last[0], last[1], last[2]);
  std::memcpy(out + i, last[2], count - i);
}

HWY_INLINE VI grey_of(VI r, VI g, VI b) {
  const DI d;
  const VI products = hn::Add(hn::Mul(r, hn::Set(d, 19595)), hn::Mul(g, hn::Set(d, 38470)));
  return hn::ShiftRight<16>(hn::Add(hn::Add(products, hn::Mul(b, hn::Set(d, 7471))), hn::Set(d, 0x8000)));
}

// step(pixels) for each group of Lanes(DU8()) pixels; what is left over is copied to a whole group and back.
template <class Step>
HWY_INLINE void for_pixels(uint8_t* pixels, size_t count, const Step& step) {
  const size_t lanes = hn::Lanes(DU8());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(pixels + i * 3);
  if (i == count) return;
  uint8_t last[3 * hn::MaxLanes(DU8())] = {};
  std::memcpy(last, pixels + i * 3, (count - i) * 3);
  step(last);
  std::memcpy(pixels + i * 3, last, (count - i) * 3);
}

void grey_pixels(uint8_t* pixels, size_t count) {
  for_pixels(pixels, count, [](uint8_t* at) HWY_ATTR {
    VU8 r, g, b;
    hn::LoadInterleaved3(DU8(), at, r, g, b);
    const VU8 grey = hn::DemoteTo(DU8(), grey_of(to_int(r), to_int(g), to_int(b)));
    hn::StoreInterleaved3(grey, grey, grey, DU8(), at);
  });
}

void blend_grey_pixels(uint8_t* pixels, size_t count, float alpha) {
  const VF factor = hn::Set(DF(), alpha);
  for_pixels(pixels, count, [&](uint8_t* at) HWY_ATTR {
    VU8 r, g, b;
    hn::LoadInterleaved3(DU8(), at, r, g, b);
    const VI red = to_int(r), green = to_int(g), blue = to_int(b);
    const VF grey = to_float(grey_of(red, green, blue));
    hn::StoreInterleaved3(to_bytes(blended(grey, to_float(red), factor)), to_bytes(blended(grey, to_float(green), factor)),
                          to_bytes(blended(grey, to_float(blue), factor)), DU8(), at);
  });
}

// At most 2^20 pixels, so that no lane overflows.
uint64_t sum_grey_pixels(const uint8_t* pixels, size_t count) {
  VI sum = hn::Zero(DI());
  const size_t lanes = hn::Lanes(DU8());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    VU8 r, g, b;
    hn::LoadInterleaved3(DU8(), pixels + i * 3, r, g, b);
    sum = hn::Add(sum, grey_of(to_int(r), to_int(g), to_int(b)));
  }
  auto total = static_cast<uint64_t>(hn::GetLane(hn::SumOfLanes(DI(), sum)));
  for (const uint8_t* p = pixels + i * 3; i < count; ++i, p += 3) {
    total += (19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 0x8000u) >> 16;
  }
  return total;
}

// round(S / 13) = (S + 6) / 13, since S is whole; S + 6 <= 3321 times 5042 / 65536 has the same whole part.
void smooth_bytes(const uint8_t* above, const uint8_t* row, const uint8_t* below, size_t count, uint8_t* out) {
  using D16 = hn::ScalableTag<uint16_t>;
  using D8 = hn::Rebind<uint8_t, D16>;
  const D16 d16;
  const D8 d8;
  const size_t lanes = hn::Lanes(d16);
  const auto at = [&](const uint8_t* p) HWY_ATTR { return hn::PromoteTo(d16, hn::LoadU(d8, p)); };
  const auto three = [&](const uint8_t* p) HWY_ATTR { return hn::Add(hn::Add(at(p - 3), at(p)), at(p + 3)); };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto sum = hn::Add(hn::Add(three(above + i), three(below + i)), three(row + i));
    const auto weighted = hn::Add(hn::Add(sum, hn::ShiftLeft<2>(at(row + i))), hn::Set(d16, 6));
    const auto mean = hn::MulHigh(weighted, hn::Set(d16, 5042));
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<D16>(), mean)), d8, out + i);
  }
  for (; i < count; ++i) {
    const auto sum_of = [i](const uint8_t* p) { return static_cast<uint32_t>(p[i] + p[i - 3] + p[i + 3]); };
    out[i] = static_cast<uint8_t>((sum_of(above) + sum_of(row) + sum_of(below) + row[i] * 4u + 6u) / 13u);
  }
}

void box_columns(const BoxStep& step, uint32_t* sums, size_t count, uint8_t* out) {
  using DU = hn::RebindToUnsigned<DI>;
  const DU d;
  const DU8 d8;
  const auto at = [&](const uint8_t* p) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(d8, p)); };
  const size_t lanes = hn::Lanes(d);
  const auto whole = hn::Set(d, step.whole), part = hn::Set(d, step.part), half = hn::Set(d, 1u << 23);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto sum = hn::Add(hn::LoadU(d, sums + i), hn::Sub(at(step.add + i), at(step.drop + i)));
    hn::StoreU(sum, d, sums + i);
    const auto far = hn::Add(at(step.before + i), at(step.after + i));
    const auto mean = hn::ShiftRight<24>(hn::Add(hn::Add(hn::Mul(sum, whole), hn::Mul(far, part)), half));
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(DI(), mean)), d8, out + i);
  }
  for (; i < count; ++i) {
    sums[i] += static_cast<uint32_t>(step.add[i]) - step.drop[i];
    out[i] = static_cast<uint8_t>(
        (sums[i] * step.whole + static_cast<uint32_t>(step.before[i] + step.after[i]) * step.part + (1u << 23)) >> 24);
  }
}

void filter_bytes(const RowFilter& filter, size_t count, float* out) {
  const DF d;
  const DU8 d8;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < count; i += lanes) {  // rows are readable, and `out` is writable, past their ends
    const size_t at = count < lanes ? 0 : std::min(i, count - lanes);
    VF sum = hn::Mul(hn::Set(d, filter.weights[0]), to_float(to_int(hn::LoadU(d8, filter.above[0] + at))));
    for (size_t k = 1; k < filter.taps; ++k) {
      const VI pair = hn::Add(to_int(hn::LoadU(d8, filter.above[k] + at)), to_int(hn::LoadU(d8, filter.below[k] + at)));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, filter.weights[k]), to_float(pair)));
    }
    hn::StoreU(sum, d, out + at);
  }
}

void filter_floats(const float* row, const float* weights, size_t taps, size_t count, uint8_t* out) {
  const DF d;
  const DU8 d8;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < count; i += lanes) {
    VF sum = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, row + i));
    for (size_t k = 1; k < taps; ++k) {
      const VF pair = hn::Add(hn::LoadU(d, row + i - 3 * k), hn::LoadU(d, row + i + 3 * k));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, weights[k]), pair));
    }
    const VU8 bytes = hn::DemoteTo(d8, hn::NearestInt(sum));
    if (i + lanes <= count) {
      hn::StoreU(bytes, d8, out + i);
    } else {
      uint8_t last[hn::MaxLanes(d8)];
      hn::StoreU(bytes, d8, last);
      std::memcpy(out + i, last, count - i);
    }
  }
}

void lut_tail(const Lut& lut, uint8_t* bytes, size_t count) {
  size_t i = 0;
  for (; i + 3 <= count; i += 3) {
    bytes[i] = lut[0][bytes[i]];
    bytes[i + 1] = lut[1][bytes[i + 1]];
    bytes[i + 2] = lut[2][bytes[i + 2]];
  }
}

#if HWY_TARGET == HWY_AVX3_DL

struct Table {
  __m512i quarters[4];
};

HWY_INLINE Table load_table(const std::array<uint8_t, 256>& values) {
  Table table;
  for (int i = 0; i < 4; ++i) table.quarters[i] = _mm512_loadu_si512(values.data() + 64 * i);
  return table;
}

HWY_INLINE __m512i look_up(const Table& table, __m512i at) {
  const __m512i low = _mm512_permutex2var_epi8(table.quarters[0], at, table.quarters[1]);
  const __m512i high = _mm512_permutex2var_epi8(table.quarters[2], at, table.quarters[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high);
}

void lut_bytes(const Lut& lut, uint8_t* bytes, size_t count) {
  const Table red = load_table(lut[0]);
  size_t i = 0;
  if (lut[0] == lut[1] && lut[0] == lut[2]) {
    for (; i + 192 <= count; i += 192) {
      for (size_t k = 0; k < 192; k += 64) {
        _mm512_storeu_si512(bytes + i + k, look_up(red, _mm512_loadu_si512(bytes + i + k)));
      }
    }
    return lut_tail(lut, bytes + i, count - i);
  }
  const Table green = load_table(lut[1]), blue = load_table(lut[2]);
  constexpr uint64_t kThird = 0x9249249249249249u;  // bits 0, 3, 6, …, 63
  for (; i + 192 <= count; i += 192) {
    for (size_t k = 0; k < 3; ++k) {  // byte j of vector k has channel (j + k) % 3
      const __m512i at = _mm512_loadu_si512(bytes + i + k * 64);
      const uint64_t greens = kThird << (k == 0 ? 1 : k == 1 ? 0 : 2), blues = kThird << (k == 0 ? 2 : k == 1 ? 1 : 0);
      const __m512i two = _mm512_mask_blend_epi8(greens, look_up(red, at), look_up(green, at));
      _mm512_storeu_si512(bytes + i + k * 64, _mm512_mask_blend_epi8(blues, two, look_up(blue, at)));
    }
  }
  lut_tail(lut, bytes + i, count - i);
}

#else

void lut_bytes(const Lut& lut, uint8_t* bytes, size_t count) { lut_tail(lut, bytes, count); }

#endif

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {

HWY_EXPORT(blend_bytes);
HWY_EXPORT(grey_pixels);
HWY_EXPORT(blend_grey_pixels);
HWY_EXPORT(sum_grey_pixels);
HWY_EXPORT(smooth_bytes);
HWY_EXPORT(box_columns);
HWY_EXPORT(lut_bytes);
HWY_EXPORT(filter_bytes);
HWY_EXPORT(filter_floats);

size_t pixel_count(const Image& image) { return static_cast<size_t>(image.width()) * static_cast<size_t>(image.height()); }

}  // namespace

void apply_lut(const Lut& lut, Image& image) { HWY_DYNAMIC_DISPATCH(lut_bytes)(lut, image.row(0), image.byte_count()); }

uint64_t grey_sum(const Image& image) {
  constexpr size_t kMax = size_t{1} << 20;
  uint64_t sum = 0;
  for (size_t i = 0, count = pixel_count(image); i < count; i += kMax) {
    sum += HWY_DYNAMIC_DISPATCH(sum_grey_pixels)(image.row(0) + i * 3, std::min(kMax, count - i));
  }
  return sum;
}

void to_grey(Image& image) { HWY_DYNAMIC_DISPATCH(grey_pixels)(image.row(0), pixel_count(image)); }

void blend(const uint8_t* a, const uint8_t* b, float alpha, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_bytes)(a, b, alpha, count, out);
}

void blend_with_grey(Image& image, float alpha) {
  HWY_DYNAMIC_DISPATCH(blend_grey_pixels)(image.row(0), pixel_count(image), alpha);
}

void smooth_row(const uint8_t* above, const uint8_t* row, const uint8_t* below, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(smooth_bytes)(above + 3, row + 3, below + 3, count, out);
}

void box_step(const BoxStep& step, uint32_t* sums, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(box_columns)(step, sums, count, out);
}

void filter_rows(const RowFilter& filter, size_t count, float* out) { HWY_DYNAMIC_DISPATCH(filter_bytes)(filter, count, out); }

void filter_row(const float* row, const float* weights, size_t taps, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(filter_floats)(row, weights, taps, count, out);
}

}  // namespace tessera::image
#endif  // HWY_ONCE
