#include "host/emulated_tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define TESSERA_AVX512 __attribute__((target("avx512f")))

namespace {

constexpr int kRows = 16, kRowBytes = 64;
thread_local uint8_t tiles[8][kRows * kRowBytes];

void load(int tile, const void* from, size_t stride) {
  for (int r = 0; r < kRows; ++r)
    std::memcpy(tiles[tile] + r * kRowBytes, static_cast<const uint8_t*>(from) + static_cast<size_t>(r) * stride, kRowBytes);
}
void store(int tile, void* to, size_t stride) {
  for (int r = 0; r < kRows; ++r)
    std::memcpy(static_cast<uint8_t*>(to) + static_cast<size_t>(r) * stride, tiles[tile] + r * kRowBytes, kRowBytes);
}
void zero(int tile) { std::memset(tiles[tile], 0, sizeof(tiles[tile])); }

// The numbers of pairs, as f32.
TESSERA_AVX512 inline __m512 even(__m512i pairs) { return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, pairs, 16)); }
TESSERA_AVX512 inline __m512 odd(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

// Intel's Intrinsics Guide, TDPBF16PS: row m of the left side holds pairs of k, row k of the right side the pairs of each column.
TESSERA_AVX512 void multiply(int sums, int left, int right) {
  for (int m = 0; m < kRows; ++m) {
    __m512 sum = _mm512_loadu_ps(tiles[sums] + m * kRowBytes);
    for (int k = 0; k < kRows; ++k) {
      int32_t own = 0;
      std::memcpy(&own, tiles[left] + m * kRowBytes + k * 4, sizeof(own));
      const __m512i pairs = _mm512_loadu_si512(tiles[right] + k * kRowBytes), pair = _mm512_set1_epi32(own);
      sum = _mm512_add_ps(sum, _mm512_mul_ps(even(pair), even(pairs)));
      sum = _mm512_add_ps(sum, _mm512_mul_ps(odd(pair), odd(pairs)));
    }
    _mm512_storeu_ps(tiles[sums] + m * kRowBytes, sum);
  }
}

}  // namespace

// The file's own names under others, and the instructions as the functions above.
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadd(tile, from, stride) ::load(tile, from, static_cast<size_t>(stride))
#define _tile_stored(tile, to, stride) ::store(tile, to, static_cast<size_t>(stride))
#define _tile_zero(tile) ::zero(tile)
#define _tile_dpbf16ps(sums, left, right) ::multiply(sums, left, right)
#define _tile_loadconfig(config) static_cast<void>(config)  // NOLINT(bugprone-reserved-identifier)
#define _tile_release() static_cast<void>(0)                // NOLINT(bugprone-reserved-identifier)
#define tiles_available emulated_tiles_available
#define tile_unit emulated_tile_unit
#define tile_bf16_unit emulated_tile_bf16_unit
#define pack_panels emulated_pack_panels
#define multiply_block emulated_multiply_block
#include "host/units/tiles.cc"  // NOLINT(bugprone-suspicious-include)

namespace tessera::host {

bool emulated_tiles_run_here() { return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw"); }

}  // namespace tessera::host

#else

#include "host/units/vectors.h"

namespace tessera::host {

bool emulated_tiles_run_here() { return false; }
const Unit& emulated_tile_unit() { return vector_unit(); }
const Unit& emulated_tile_bf16_unit() { return vector_unit(); }

}  // namespace tessera::host

#endif
