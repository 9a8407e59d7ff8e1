#pragma once
// Shared by files that are compiled for AVX-512: to be included where a pragma says so.

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace tessera::host {
namespace {

// Of g++ 12's intrinsics, those that take a mask are the ones that do not warn of uninitialised values.
constexpr __mmask16 kAll = 0xffff;
constexpr __mmask8 kAllPairs = 0xff;

// The first `count` of 16 numbers; none where it is negative.
inline __mmask16 first(int64_t count) { return static_cast<__mmask16>((1U << std::clamp<int64_t>(count, 0, 16)) - 1); }

// 16 x 16 numbers of 32 bits, transposed in place.
inline void transpose(__m512i r[16]) {
  __m512i t[16];
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_maskz_unpacklo_epi32(kAll, r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_maskz_unpackhi_epi32(kAll, r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i + 0] = _mm512_maskz_unpacklo_epi64(kAllPairs, t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_maskz_unpackhi_epi64(kAllPairs, t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_maskz_unpacklo_epi64(kAllPairs, t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_maskz_unpackhi_epi64(kAllPairs, t[4 * i + 1], t[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_maskz_shuffle_i32x4(kAll, r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_maskz_shuffle_i32x4(kAll, r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_maskz_shuffle_i32x4(kAll, r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_maskz_shuffle_i32x4(kAll, r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_maskz_shuffle_i32x4(kAll, t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_maskz_shuffle_i32x4(kAll, t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_maskz_shuffle_i32x4(kAll, t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_maskz_shuffle_i32x4(kAll, t[i + 4], t[i + 12], 0xdd);
  }
}

}  // namespace
}  // namespace tessera::host
