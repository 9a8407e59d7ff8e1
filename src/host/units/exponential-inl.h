// exp of a vector, for files that Highway compiles once for each instruction set. Include it after <hwy/highway.h>, outside of
// any namespace.

#include <cstddef>
#include <iterator>
#include <numbers>

#if defined(TESSERA_HOST_EXPONENTIAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_HOST_EXPONENTIAL_INL_H
#undef TESSERA_HOST_EXPONENTIAL_INL_H
#else
#define TESSERA_HOST_EXPONENTIAL_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {

// x 2^n for whole n in [-252, 127]: subnormal results come out right, and are rounded once. D is a tag of f32.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V times_power_of_two(D d, V x, V n) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) return V{_mm512_maskz_scalef_ps(0xffff, x.raw, n.raw)};
#endif
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToSigned<D> di;
  const auto whole = hn::ConvertTo(di, n), half = hn::ShiftRight<1>(whole), rest = hn::Sub(whole, half);
  const auto power = [&](auto e) { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127)))); };
  return hn::Mul(hn::Mul(x, power(half)), power(rest));
}

// exp(x) for x in [-104, 0], or NaN of a NaN, by Taylor's series around the nearest multiple of ln 2.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exponential(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr float kUpper = 0x1.62e4p-1F;  // of ln 2, with few enough digits that multiples are exact
  constexpr auto kLower = static_cast<float>(std::numbers::ln2 - static_cast<double>(kUpper));
  constexpr float kTaylor[] = {1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 1.0F / 2, 1, 1};
  const V n = hn::Round(hn::Mul(x, hn::Set(d, std::numbers::log2e_v<float>)));
  V r = hn::NegMulAdd(n, hn::Set(d, kUpper), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLower), r);
  V sum = hn::Set(d, kTaylor[0]);
  for (size_t i = 1; i < std::size(kTaylor); ++i) sum = hn::MulAdd(sum, r, hn::Set(d, kTaylor[i]));
  return times_power_of_two(d, sum, n);
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
