// The vector code of resize.h. Highway compiles it once for each instruction set and picks one when the program runs.

// SVE's lanes of ReorderDemote2To come in another order; NEON serves there.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_WANT_AVX3_DL  // AVX-512 with VNNI: Ice Lake, Zen 4 and later
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resize/resize.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "image/pair_products-inl.h"
#include "image/resize/resize.h"

#if HWY_TARGET == HWY_AVX3_DL
// Highway 1.0's own attributes for this target name AVX-VNNI in place of AVX-512's VNNI: with them the compiler writes products that
// Ice Lake and Zen 4 don't have.
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR_AVX3 ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace tessera::image::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kShift = 22;
constexpr int kRows = 4;  // of the input at once in the pass across

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE uint8_t finish(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kShift, 0, 255)); }

void across_rows(const uint8_t* from, ptrdiff_t from_stride, const ResizeTaps& taps, bool mirror, uint8_t* to,
                 ptrdiff_t to_stride) {
  for (int i = 0; i < kRows * taps.out * 3; ++i) {
    const int row = i % kRows, at = i / kRows / 3, c = i / kRows % 3;
    const int x = mirror ? taps.out - 1 - at : at;
    const int first = taps.first[static_cast<size_t>(x)], count = std::min(taps.pairs * 2, taps.in - first);
    int32_t sum = 1 << (kShift - 1);
    for (int t = 0; t < count; ++t) sum += taps.weight(x, t) * from[row * from_stride + (first + t) * 3 + c];
    to[row * to_stride + at * 3 + c] = finish(sum);
  }
}

void down_row(const uint8_t* const* rows, const ResizeTaps& taps, int y, size_t bytes, uint8_t* to) {
  for (size_t i = 0; i < bytes; ++i) {
    int32_t sum = 1 << (kShift - 1);
    for (int t = 0; t < 2 * taps.pairs; ++t) sum += taps.weight(y, t) * rows[t][i];
    to[i] = finish(sum);
  }
}

#elif HWY_TARGET == HWY_AVX3_DL

// Four products of unsigned and signed bytes are one instruction here, so the weights' digits are used.

using Digits = std::array<__m256i, 3>;

HWY_INLINE Digits no_sums() { return {_mm256_set1_epi32(1 << (kShift - 1)), _mm256_setzero_si256(), _mm256_setzero_si256()}; }

HWY_INLINE void add_products(Digits& sums, __m256i values, const Digits& weights) {
  for (size_t d = 0; d < 3; ++d) sums[d] = _mm256_dpbusd_epi32(sums[d], values, weights[d]);
}

HWY_INLINE Digits broadcast_digits(const uint32_t* digits) {
  return {_mm256_set1_epi32(static_cast<int>(digits[0])), _mm256_set1_epi32(static_cast<int>(digits[1])),
          _mm256_set1_epi32(static_cast<int>(digits[2]))};
}

HWY_INLINE __m256i finish(const Digits& sums) {
  const __m256i upper = _mm256_add_epi32(_mm256_slli_epi32(sums[2], 16), _mm256_slli_epi32(sums[1], 8));
  return _mm256_srai_epi32(_mm256_add_epi32(upper, sums[0]), kShift);
}

// kRows rows of `from` to kRows rows of `to`. Writes 4 bytes a pixel, left to right, so a row of `to` has room for one byte
// more.
void across_rows(const uint8_t* from, ptrdiff_t from_stride, const ResizeTaps& taps, bool mirror, uint8_t* to,
                 ptrdiff_t to_stride) {
  // r0 r1 r2 r3 g0 … b3 0 0 0 0 from r0 g0 b0 r1 …, in both halves.
  const __m256i spread = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
  const int fours = taps.fours(), step = mirror ? -1 : 1;
  int x = mirror ? taps.out - 1 : 0;
  for (int left = taps.out; left > 0; --left, x += step, to += 3) {
    const uint32_t* digits = taps.digits.data() + ptrdiff_t{x} * fours * 3;
    const uint8_t* pixel = from + ptrdiff_t{taps.first[static_cast<size_t>(x)]} * 3;
    Digits upper = no_sums(), lower = upper;
    for (int four = 0; four < fours; ++four, pixel += 12, digits += 3) {
      const Digits weights = broadcast_digits(digits);
      const auto two_rows = [&](const uint8_t* at) {
        const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + from_stride));
        return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1), spread);
      };
      add_products(upper, two_rows(pixel), weights);
      add_products(lower, two_rows(pixel + 2 * from_stride), weights);
    }
    const __m256i words = _mm256_packs_epi32(finish(upper), finish(lower));
    const __m256i pixels = _mm256_packus_epi16(words, words);  // halves: rows 0 and 2, rows 1 and 3
    const auto even = static_cast<uint64_t>(_mm256_extract_epi64(pixels, 0));
    const auto odd = static_cast<uint64_t>(_mm256_extract_epi64(pixels, 2));
    for (int row = 0; row < kRows; ++row) {
      const auto four_bytes = static_cast<uint32_t>((row % 2 ? odd : even) >> (row / 2 * 32));
      std::memcpy(to + row * to_stride, &four_bytes, 4);
    }
  }
}

// One output row of the pass down: `rows` are its 4 * fours() input rows (an unused one repeats another and has weight zero),
// each readable up to a multiple of 32 bytes.
void down_row(const uint8_t* const* rows, const ResizeTaps& taps, int y, size_t bytes, uint8_t* to) {
  const int fours = taps.fours();
  for (size_t i = 0; i < bytes; i += 32) {
    std::array<Digits, 4> sums = {no_sums(), no_sums(), no_sums(), no_sums()};
    const uint32_t* digits = taps.digits.data() + ptrdiff_t{y} * fours * 3;
    for (int four = 0; four < fours; ++four, digits += 3) {
      const auto row = [&](int k) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[four * 4 + k] + i)); };
      const __m256i a = row(0), b = row(1), c = row(2), d = row(3);
      const __m256i ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
      const __m256i cd_low = _mm256_unpacklo_epi8(c, d), cd_high = _mm256_unpackhi_epi8(c, d);
      const Digits weights = broadcast_digits(digits);
      add_products(sums[0], _mm256_unpacklo_epi16(ab_low, cd_low), weights);
      add_products(sums[1], _mm256_unpackhi_epi16(ab_low, cd_low), weights);
      add_products(sums[2], _mm256_unpacklo_epi16(ab_high, cd_high), weights);
      add_products(sums[3], _mm256_unpackhi_epi16(ab_high, cd_high), weights);
    }
    const __m256i first = _mm256_packs_epi32(finish(sums[0]), finish(sums[1]));
    const __m256i second = _mm256_packs_epi32(finish(sums[2]), finish(sums[3]));
    const __m256i result = _mm256_packus_epi16(first, second);
    if (i + 32 <= bytes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), result);
    } else {
      alignas(32) uint8_t tail[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(tail), result);
      std::memcpy(to + i, tail, bytes - i);
    }
  }
}

#else

// Vectors of at most 32 bytes: one or two blocks of 16, each of which holds one row's pixel in the pass across.
using D8 = hn::CappedTag<uint8_t, 32>;
using D16 = hn::RepartitionToWide<D8>;
using DI16 = hn::RebindToSigned<D16>;
using DI32 = hn::RepartitionToWide<DI16>;
using DU32 = hn::RebindToUnsigned<DI32>;
using V16 = hn::Vec<DI16>;
using V32 = hn::Vec<DI32>;

// (high * 256 + low) >> 22; the rounding term is already in `low`.
HWY_INLINE V32 finish(V32 high, V32 low) { return hn::ShiftRight<kShift>(hn::Add(hn::ShiftLeft<8>(high), low)); }

HWY_INLINE V16 broadcast_pair(uint32_t pair) { return hn::BitCast(DI16(), hn::Set(DU32(), pair)); }

// The 16 bytes at one row, or those at a row and at the next.
HWY_INLINE hn::Vec<D8> load_blocks(const uint8_t* at, [[maybe_unused]] ptrdiff_t stride) {
  const hn::Full128<uint8_t> d;
#if HWY_MAX_BYTES >= 32
  return hn::Combine(D8(), hn::LoadU(d, at + stride), hn::LoadU(d, at));
#else
  return hn::LoadU(d, at);
#endif
}

// For each block: r0 r1 g0 g1 b0 b1 0 0 as 16-bit numbers, from r0 g0 b0 r1 g1 b1 ….
alignas(16) constexpr uint8_t kSpread[16] = {0, 0x80, 3, 0x80, 1, 0x80, 4, 0x80, 2, 0x80, 5, 0x80, 0x80, 0x80, 0x80, 0x80};

// kRows rows of `from` to kRows rows of `to`. Writes 4 bytes a pixel, left to right, so a row of `to` has room for one byte
// more.
void across_rows(const uint8_t* from, ptrdiff_t from_stride, const ResizeTaps& taps, bool mirror, uint8_t* to,
                 ptrdiff_t to_stride) {
  const DI32 d32;
  const DI16 d16;
  constexpr int kBlocks = HWY_MAX_BYTES >= 32 ? 2 : 1;
  constexpr int kVectors = kRows / kBlocks;
  const auto spread = hn::LoadDup128(D8(), kSpread);
  const V32 rounding = hn::Set(d32, 1 << (kShift - 1));
  const int pairs = taps.pairs, step = mirror ? -1 : 1;
  int x = mirror ? taps.out - 1 : 0;
  for (int left = taps.out; left > 0; --left, x += step, to += 3) {
    const uint32_t* high = taps.high.data() + ptrdiff_t{x} * pairs;
    const uint32_t* low = taps.low.data() + ptrdiff_t{x} * pairs;
    const uint8_t* pixel = from + ptrdiff_t{taps.first[static_cast<size_t>(x)]} * 3;
    V32 sum_high[4], sum_low[4];
    for (int v = 0; v < kVectors; ++v) {
      sum_high[v] = hn::Zero(d32);
      sum_low[v] = rounding;
    }
    for (int pair = 0; pair < pairs; ++pair, pixel += 6) {
      const V16 weight_high = broadcast_pair(high[pair]), weight_low = broadcast_pair(low[pair]);
      for (int v = 0; v < kVectors; ++v) {
        const auto block = load_blocks(pixel + v * kBlocks * from_stride, from_stride);
        const V16 values = hn::BitCast(d16, hn::TableLookupBytesOr0(block, spread));
        sum_high[v] = add_pair_products(d32, values, weight_high, sum_high[v]);
        sum_low[v] = add_pair_products(d32, values, weight_low, sum_low[v]);
      }
    }
    for (int v = 0; v < kVectors; v += 2) {
      const V16 words = hn::ReorderDemote2To(d16, finish(sum_high[v], sum_low[v]), finish(sum_high[v + 1], sum_low[v + 1]));
      // Block b of `words` holds the pixels of rows v * kBlocks + b and (v + 1) * kBlocks + b.
      alignas(32) uint8_t pixels[16];
      hn::StoreU(hn::DemoteTo(hn::Rebind<uint8_t, DI16>(), words), hn::Rebind<uint8_t, DI16>(), pixels);
      for (int b = 0; b < kBlocks; ++b) {
        std::memcpy(to + (v * kBlocks + b) * to_stride, pixels + b * 8, 4);
        std::memcpy(to + ((v + 1) * kBlocks + b) * to_stride, pixels + b * 8 + 4, 4);
      }
    }
  }
}

// One output row of the pass down: `rows` are its 2 * pairs input rows (an unused one repeats another and has weight zero),
// each readable up to a multiple of the vector size.
void down_row(const uint8_t* const* rows, const ResizeTaps& taps, int y, size_t bytes, uint8_t* to) {
  const int pairs = taps.pairs;
  const uint32_t* high = taps.high.data() + ptrdiff_t{y} * pairs;
  const uint32_t* low = taps.low.data() + ptrdiff_t{y} * pairs;
  const DI32 d32;
  const DI16 d16;
  const hn::Rebind<uint8_t, DI16> d8;
  const size_t step = hn::Lanes(d16);
  const V32 rounding = hn::Set(d32, 1 << (kShift - 1));
  for (size_t i = 0; i < bytes; i += step) {
    V32 high_a = hn::Zero(d32), high_b = high_a, low_a = rounding, low_b = rounding;
    for (int pair = 0; pair < pairs; ++pair) {
      const V16 upper = hn::PromoteTo(d16, hn::LoadU(d8, rows[2 * pair] + i));
      const V16 lower = hn::PromoteTo(d16, hn::LoadU(d8, rows[2 * pair + 1] + i));
      const V16 a = hn::InterleaveLower(d16, upper, lower), b = hn::InterleaveUpper(d16, upper, lower);
      const V16 weight_high = broadcast_pair(high[pair]), weight_low = broadcast_pair(low[pair]);
      high_a = add_pair_products(d32, a, weight_high, high_a);
      high_b = add_pair_products(d32, b, weight_high, high_b);
      low_a = add_pair_products(d32, a, weight_low, low_a);
      low_b = add_pair_products(d32, b, weight_low, low_b);
    }
    const auto result = hn::DemoteTo(d8, hn::ReorderDemote2To(d16, finish(high_a, low_a), finish(high_b, low_b)));
    if (i + step <= bytes) {
      hn::StoreU(result, d8, to + i);
    } else {
      alignas(32) uint8_t tail[32];
      hn::StoreU(result, d8, tail);
      std::memcpy(to + i, tail, bytes - i);
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::image {
namespace {

HWY_EXPORT(across_rows);
HWY_EXPORT(down_row);

constexpr size_t kCachedTaps = 16;
constexpr int kAcrossRows = 4;

}  // namespace

struct Resizer::State {
  struct Cached {
    ResizeAxis axis;
    Filter filter{};
    ResizeTaps taps;
  };
  std::array<Cached, kCachedTaps> cache;
  PaddedBuffer middle;  // the image after the first pass
  PaddedBuffer
      wide;  // and, where that is the one down, after the second, its rows with room for what across_rows writes past them
  std::vector<const uint8_t*> rows;

  // Until the next call, which may take its place.
  const ResizeTaps& taps(const ResizeAxis& axis, Filter filter) {
    auto key = static_cast<uint64_t>(filter);
    for (const int part : {axis.in, axis.out, axis.inputs.begin, axis.outputs.begin, axis.outputs.count}) {
      key = key * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(part);
    }
    Cached& slot = cache[(key >> 32) % kCachedTaps];
    if (slot.axis != axis || slot.filter != filter) slot = {axis, filter, make_taps(axis, filter)};
    return slot.taps;
  }

  // All rows of `from` into `to`, which is made large enough.
  static ImageView across(const ImageView& from, const ResizeTaps& taps, bool mirror, PaddedBuffer& to) {
    const ptrdiff_t stride = padded_row(taps.out);
    to.reset(static_cast<size_t>(stride) * static_cast<size_t>(from.height));
    // The last rows are done again with those before them; an image with fewer rows has each done kAcrossRows times.
    const bool few = from.height < kAcrossRows;
    for (int y = 0; y < from.height; y += few ? 1 : kAcrossRows) {
      const int row = few ? y : std::min(y, from.height - kAcrossRows);
      HWY_DYNAMIC_DISPATCH(across_rows)
      (from.row(row), few ? 0 : from.stride, taps, mirror, to.data() + row * stride, few ? 0 : stride);
    }
    return {to.data(), taps.out, from.height, stride};
  }

  void down(const ImageView& from, const ResizeTaps& taps, uint8_t* to, ptrdiff_t stride) {
    rows.resize(static_cast<size_t>(taps.fours()) * 4);
    for (int y = 0; y < taps.out; ++y) {
      for (size_t t = 0; t < rows.size(); ++t) {
        rows[t] = from.row(std::min(taps.first[static_cast<size_t>(y)] + static_cast<int>(t), from.height - 1));
      }
      HWY_DYNAMIC_DISPATCH(down_row)(rows.data(), taps, y, static_cast<size_t>(from.width) * 3, to + y * stride);
    }
  }

  static ptrdiff_t padded_row(int width) { return (ptrdiff_t{width} * 3 + 1 + 63) / 64 * 64; }
};

Resizer::Resizer() : state_(new State) {}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

size_t Resizer::scratch_bytes() const {
  size_t bytes = state_->middle.capacity() + state_->wide.capacity();
  for (const State::Cached& slot : state_->cache) {
    bytes += (slot.taps.high.capacity() * 2 + slot.taps.digits.capacity()) * sizeof(uint32_t);
  }
  return bytes;
}

void Resizer::resize(const ImageView& from, Filter filter, bool mirror, int width, int height, uint8_t* to, ptrdiff_t stride) {
  const ResizeWindow window{from.width, from.height, width, height, {0, 0, width, height}};
  resize_window(from, {0, 0, from.width, from.height}, window, filter, mirror, to, stride);
}

void Resizer::resize_window(const ImageView& from, const Box& input, const ResizeWindow& window, Filter filter, bool mirror,
                            uint8_t* to, ptrdiff_t stride) {
  const Box& box = window.box;
  if (window.in_width == window.width && window.in_height == window.height) {
    return copy_image(from.crop({box.x - input.x, box.y - input.y, box.width, box.height}), mirror, to, stride);
  }
  State& s = *state_;
  const ResizeAxis across{window.in_width, window.width, {input.x, input.width}, {box.x, box.width}};
  const ResizeAxis down{window.in_height, window.height, {input.y, input.height}, {box.y, box.height}};
  if (!down_first(window)) {
    const ImageView middle = State::across(from, s.taps(across, filter), mirror, s.middle);
    return s.down(middle, s.taps(down, filter), to, stride);
  }
  const ptrdiff_t middle_stride = State::padded_row(from.width);
  s.middle.reset(static_cast<size_t>(middle_stride) * static_cast<size_t>(box.height));
  s.down(from, s.taps(down, filter), s.middle.data(), middle_stride);
  const ImageView middle{s.middle.data(), from.width, box.height, middle_stride};
  copy_image(State::across(middle, s.taps(across, filter), mirror, s.wide), false, to, stride);
}

}  // namespace tessera::image
#endif  // HWY_ONCE
