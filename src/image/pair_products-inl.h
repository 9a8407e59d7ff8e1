// Sums of products of 16-bit numbers for code that Highway compiles for each target: include it after highway.h, in a file that
// foreach_target.h includes again.

#if defined(TESSERA_DATA_PAIR_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_DATA_PAIR_PRODUCTS_INL_H
#undef TESSERA_DATA_PAIR_PRODUCTS_INL_H
#else
#define TESSERA_DATA_PAIR_PRODUCTS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::image::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// sum[i] + a[2i] b[2i] + a[2i+1] b[2i+1], for D32 a tag of int32_t.
template <class D32, class V16, class V32>
HWY_INLINE V32 add_pair_products(D32 d, V16 a, V16 b, V32 sum) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86
  V32 unused = hn::Zero(d);  // on x86 this operation is one pmaddwd and an add
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
#else
  const V32 a32 = hn::BitCast(d, a), b32 = hn::BitCast(d, b);
  const auto even = [](V32 v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  const V32 odd_product = hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32));
  return hn::Add(hn::Add(sum, hn::Mul(even(a32), even(b32))), odd_product);
#endif
}

// The pair (a, b) in every 32 bits.
template <class D16>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D16> broadcast_pair(D16 d, int a, int b) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<hn::RepartitionToWide<D16>> d32;
  return hn::BitCast(d, hn::Set(d32, static_cast<uint32_t>(b) << 16 | (static_cast<uint32_t>(a) & 0xFFFF)));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace tessera::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TESSERA_DATA_PAIR_PRODUCTS_INL_H
