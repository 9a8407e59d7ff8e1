// Vectors of bf16 numbers as f32, for files that Highway compiles once for each instruction set. Include it after
// <hwy/highway.h>, outside of any namespace.

#include <cstdint>

#if defined(TESSERA_HOST_BF16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_HOST_BF16_INL_H
#undef TESSERA_HOST_BF16_INL_H
#else
#define TESSERA_HOST_BF16_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {

// D is a tag of f32.
template <class D>
using Bits = hwy::HWY_NAMESPACE::Rebind<uint16_t, D>;
template <class D>
using VecOfBits = hwy::HWY_NAMESPACE::Vec<Bits<D>>;

template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> widened(D d, VecOfBits<D> bits) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
}

// The nearest, ties to even; a NaN stays one.
template <class D>
HWY_INLINE VecOfBits<D> narrowed(D /*d*/, hwy::HWY_NAMESPACE::Vec<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));  // a NaN may not become an infinity
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  return hn::DemoteTo(Bits<D>(), hn::BitCast(di, hn::ShiftRight<16>(chosen)));
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
