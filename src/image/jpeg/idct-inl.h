// The inverse DCT of JPEG blocks for code that Highway compiles for each target: libjpeg's accurate integer method ("islow"),
// the algorithm of C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical Fast 1-D DCT Algorithms with 11 Multiplications",
// 1989, with 13 bits of fraction in the constants and 2 in the intermediate values.

#if defined(TESSERA_DATA_JPEG_IDCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DATA_JPEG_IDCT_INL_H
#undef TESSERA_DATA_JPEG_IDCT_INL_H
#else
#define TESSERA_DATA_JPEG_IDCT_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "image/jpeg/blocks.h"
#include "image/pair_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Makes samples of the blocks that wait in `waiting`, whose quantisation table is `quantisation`.
class JpegTransform {
 public:
  static constexpr size_t kBlocks = HWY_MAX_BYTES / 16;
  // Where coefficient (x, y) of a block lies from its pointer on, and where to write what has no place in a block.
  static constexpr size_t place(size_t x, size_t y) { return y * 8 * kBlocks + x; }
  static constexpr size_t kElsewhere = 64 * kBlocks;

  HWY_INLINE JpegTransform(JpegWaiting& waiting, const JpegQuantisation& quantisation)
      : waiting_(waiting), quantisation_(quantisation) {}

  // Zeros for the next block's coefficients.
  HWY_INLINE int16_t* next() { return waiting_.coefficients.data() + 8 * waiting_.count; }

  // The block whose coefficients next() gave.
  HWY_INLINE void add(uint8_t* samples, ptrdiff_t stride) {
    waiting_.targets[waiting_.count++] = {samples, stride};
    if (waiting_.count == kBlocks) transform();
  }

  // A block whose only coefficient is the first.
  HWY_INLINE void add_flat(int coefficient, uint8_t* samples, ptrdiff_t stride) {
    const int value = coefficient * quantisation_.steps[0];
    waiting_.flat_ok = waiting_.flat_ok && value > -kFlatLimit && value < kFlatLimit;
    const int sample = std::clamp(((value + 4) >> 3) + 128, 0, 255);
    for (int y = 0; y < 8; ++y) std::memset(samples + y * stride, sample, 8);
  }

  // Does what still waits; false when some value was out of the range for which the result is known to be libjpeg's.
  bool finish();

 private:
  using D16 = hn::CappedTag<int16_t, 32>;
  using D32 = hn::RepartitionToWide<D16>;
  using DU16 = hn::RebindToUnsigned<D16>;
  using V16 = hn::Vec<D16>;
  using V32 = hn::Vec<D32>;
  static constexpr int kFlatLimit = 4000;     // samples within -500 .. 500 of the middle
  static constexpr int kMiddleLimit = 16384;  // of values between the passes: two of them add up in 16 bits
  static constexpr int kSampleLimit = 512;    // of samples: beyond, plain code wraps where vector code saturates
  static constexpr int kConstantBits = 13, kPassBits = 2;

  // 32-bit values of the lower and the upper four lanes of each block.
  struct Wide {
    V32 low, high;
  };
  struct Pairs {
    V16 low, high;
    Pairs(V16 a, V16 b) : low(hn::InterleaveLower(D16(), a, b)), high(hn::InterleaveUpper(D16(), a, b)) {}
  };
  // sum + x a + y b for the pairs (a, b), x and y being constants with kConstantBits of fraction.
  static HWY_INLINE Wide add_products(const Pairs& ab, int x, int y, const Wide& sum) {
    const V16 weights = broadcast_pair(D16(), x, y);
    return {add_pair_products(D32(), ab.low, weights, sum.low), add_pair_products(D32(), ab.high, weights, sum.high)};
  }
  template <int kShift>
  static HWY_INLINE V16 narrow(V32 low, V32 high) {
    return hn::ReorderDemote2To(D16(), hn::ShiftRight<kShift>(low), hn::ShiftRight<kShift>(high));
  }
  // a + b and a - b without their last kShift bits.
  template <int kShift>
  static HWY_INLINE void butterfly(const Wide& a, const Wide& b, V16& sum, V16& difference) {
    sum = narrow<kShift>(hn::Add(a.low, b.low), hn::Add(a.high, b.high));
    difference = narrow<kShift>(hn::Sub(a.low, b.low), hn::Sub(a.high, b.high));
  }
  template <int kShift>
  static HWY_INLINE void pass(V16 (&v)[8], int rounding);
  static HWY_INLINE void transpose(V16 (&v)[8]);
  HWY_INLINE void dequantise(V16 (&v)[8]);
  HWY_INLINE void store(const V16 (&v)[8]) const;
  // large |= value, for each of the values.
  static HWY_INLINE void note(std::array<int16_t, 8 * JpegWaiting::kMaxBlocks>& large, const V16 (&values)[8], int limit) {
    V16 all = hn::Load(D16(), large.data());
    for (const V16& value : values) all = hn::Or(all, hn::Add(value, hn::Set(D16(), static_cast<int16_t>(limit))));
    hn::Store(all, D16(), large.data());
  }
  HWY_NOINLINE void transform();

  JpegWaiting& waiting_;
  const JpegQuantisation& quantisation_;
};

// One dimension; the formulas are those of the figure in the paper, with pairs of products joined.
template <int kShift>
HWY_INLINE void JpegTransform::pass(V16 (&v)[8], int rounding) {
  constexpr int kOne = 1 << kConstantBits;
  constexpr int k0298 = 2446, k0390 = 3196, k0541 = 4433, k0765 = 6270, k0899 = 7373, k1175 = 9633, k1501 = 12299,
                k1847 = 15137, k1961 = 16069, k2053 = 16819, k2562 = 20995, k3072 = 25172;
  const Wide zero = {hn::Zero(D32()), hn::Zero(D32())};
  const Wide round = {hn::Set(D32(), rounding), hn::Set(D32(), rounding)};
  const auto add = [](const Wide& a, const Wide& b) { return Wide{hn::Add(a.low, b.low), hn::Add(a.high, b.high)}; };
  const auto subtract = [](const Wide& a, const Wide& b) { return Wide{hn::Sub(a.low, b.low), hn::Sub(a.high, b.high)}; };

  const Pairs v04(v[0], v[4]), v26(v[2], v[6]);
  const Wide sum04 = add_products(v04, kOne, kOne, round), difference04 = add_products(v04, kOne, -kOne, round);
  const Wide sum26 = add_products(v26, k0541 + k0765, k0541, zero),
             difference26 = add_products(v26, k0541, k0541 - k1847, zero);
  const Wide even0 = add(sum04, sum26), even3 = subtract(sum04, sum26);
  const Wide even1 = add(difference04, difference26), even2 = subtract(difference04, difference26);

  const Pairs sums(hn::Add(v[7], v[3]), hn::Add(v[5], v[1])), v71(v[7], v[1]), v53(v[5], v[3]);
  const Wide z3 = add_products(sums, k1175 - k1961, k1175, zero), z4 = add_products(sums, k1175, k1175 - k0390, zero);
  const Wide odd3 = add_products(v71, k0298 - k0899, -k0899, z3), odd0 = add_products(v71, -k0899, k1501 - k0899, z4);
  const Wide odd2 = add_products(v53, k2053 - k2562, -k2562, z4), odd1 = add_products(v53, -k2562, k3072 - k2562, z3);

  butterfly<kShift>(even0, odd0, v[0], v[7]);
  butterfly<kShift>(even1, odd1, v[1], v[6]);
  butterfly<kShift>(even2, odd2, v[2], v[5]);
  butterfly<kShift>(even3, odd3, v[3], v[4]);
}

HWY_INLINE void JpegTransform::transpose(V16 (&v)[8]) {
  using D64 = hn::RepartitionToWide<D32>;
  const auto low16 = [](V16 a, V16 b) { return hn::BitCast(D32(), hn::InterleaveLower(D16(), a, b)); };
  const auto high16 = [](V16 a, V16 b) { return hn::BitCast(D32(), hn::InterleaveUpper(D16(), a, b)); };
  const auto low32 = [](V32 a, V32 b) { return hn::BitCast(D64(), hn::InterleaveLower(D32(), a, b)); };
  const auto high32 = [](V32 a, V32 b) { return hn::BitCast(D64(), hn::InterleaveUpper(D32(), a, b)); };
  hn::Vec<D64> halves[2][4];  // of the columns two by two, by which rows they are of
  for (int half = 0; half < 2; ++half) {
    const V16* a = v + half * 4;
    const V32 left01 = low16(a[0], a[1]), right01 = high16(a[0], a[1]);
    const V32 left23 = low16(a[2], a[3]), right23 = high16(a[2], a[3]);
    halves[half][0] = low32(left01, left23);
    halves[half][1] = high32(left01, left23);
    halves[half][2] = low32(right01, right23);
    halves[half][3] = high32(right01, right23);
  }
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = hn::BitCast(D16(), hn::InterleaveLower(D64(), halves[0][i], halves[1][i]));
    v[2 * i + 1] = hn::BitCast(D16(), hn::InterleaveUpper(D64(), halves[0][i], halves[1][i]));
  }
}

HWY_INLINE void JpegTransform::dequantise(V16 (&v)[8]) {
  V16 large = hn::Load(D16(), waiting_.large_input.data());
  for (size_t y = 0; y < 8; ++y) {
    const V16 levels = hn::Load(D16(), waiting_.coefficients.data() + place(0, y));
    const auto limits = hn::LoadDup128(DU16(), &quantisation_.limits[y * 8]);
    const auto excess = hn::SaturatedSub(hn::BitCast(DU16(), hn::Abs(levels)), limits);
    large = hn::Or(large, hn::BitCast(D16(), excess));
    v[y] = hn::Mul(levels, hn::LoadDup128(D16(), &quantisation_.steps[y * 8]));
  }
  hn::Store(large, D16(), waiting_.large_input.data());
}

HWY_INLINE void JpegTransform::store(const V16 (&v)[8]) const {
  const hn::Rebind<uint8_t, D16> d8;
  for (int y = 0; y < 8; ++y) {
    alignas(32) uint8_t rows[8 * kBlocks];
    hn::Store(hn::DemoteTo(d8, v[y]), d8, rows);
    for (size_t b = 0; b < kBlocks; ++b) {
      std::memcpy(waiting_.targets[b].samples + y * waiting_.targets[b].stride, rows + 8 * b, 8);
    }
  }
}

inline void JpegTransform::transform() {
  V16 v[8];
  dequantise(v);
  constexpr int kFirst = kConstantBits - kPassBits, kSecond = kConstantBits + kPassBits + 3;
  pass<kFirst>(v, 1 << (kFirst - 1));
  note(waiting_.large_middle, v, kMiddleLimit);
  transpose(v);
  pass<kSecond>(v, (1 << (kSecond - 1)) + (128 << kSecond));
  note(waiting_.large_output, v, kSampleLimit - 128);
  transpose(v);
  store(v);
  std::memset(waiting_.coefficients.data(), 0, kElsewhere * sizeof(int16_t));
  waiting_.count = 0;
}

inline bool JpegTransform::finish() {
  uint8_t unused[64];
  while (waiting_.count > 0) add(unused, 8);
  const auto load = [](const auto& large) { return hn::Load(D16(), large.data()); };
  const V16 outputs = hn::AndNot(hn::Set(D16(), 2 * kSampleLimit - 1), load(waiting_.large_output));
  const V16 all = hn::Or(hn::Or(load(waiting_.large_input), outputs), hn::BroadcastSignBit(load(waiting_.large_middle)));
  return waiting_.flat_ok && hn::AllTrue(D16(), hn::Eq(all, hn::Zero(D16())));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_DATA_JPEG_IDCT_INL_H
