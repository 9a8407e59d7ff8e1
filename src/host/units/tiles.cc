#include "host/units/tiles.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "host/units/cpu_level.h"
#include "host/units/scratch.h"

// What follows, up to pop_options, runs only where tiles_available().
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#endif

#include "host/units/avx512.h"

namespace tessera::host {
namespace {

// A tile register holds 16 rows of 64 bytes. Operands are packed as tiles of pairs of bf16 numbers: of the left side [16 rows
// m] [16 pairs], of the right side [16 pairs][16 columns n]. Pair i of a step is numbers i and i + 16 of its k: which numbers
// meet in a pair does not matter while both sides agree, and these meet without a shuffle.
constexpr int64_t kTile = 16, kTileBytes = 1024;
// A number of f32 is packed as three bf16 numbers, one of bf16 as itself.
constexpr int kOfF32 = 3, kOfBF16 = 1;
template <int kParts>
constexpr int64_t kBytesOfStep = kParts * 2 * kTileBytes;
static_assert(kPanel == 2 * kTile && kStep == 2 * kTile && kStepBytes == kBytesOfStep<kOfF32>);

// 16 numbers as bf16 parts, the upper halves of an f32 each: x = part[0] + part[1] + part[2], exactly, or the nearest bf16.
template <int kParts>
struct Parts {
  __m512i part[kParts];
};

inline __m512i upper_halves(__m256i bf16) { return _mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, bf16), 16); }

// 16 numbers from (row, k) on, which lie one after the other.
inline __m512 numbers(const Operand& from, int64_t row, int64_t k, __mmask16 mask) {
  if (from.dtype == DType::kF32) return _mm512_maskz_loadu_ps(mask, from.f32(row, k));
  return _mm512_castsi512_ps(upper_halves(_mm256_maskz_loadu_epi16(mask, from.bf16(row, k))));
}

// To the nearest bf16, ties away from zero; what is not finite stays so.
inline __m512i rounded(__m512 x) {
  const __m512i up = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  return _mm512_and_si512(up, _mm512_set1_epi32(static_cast<int>(0xffff0000)));
}

template <int kParts>
inline Parts<kParts> split(__m512 x) {
  Parts<kParts> p;
  if constexpr (kParts == kOfBF16) {
    p.part[0] = upper_halves(reinterpret_cast<__m256i>(_mm512_maskz_cvtneps_pbh(kAll, x)));
    return p;
  } else {
    p.part[0] = rounded(x);
    const __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(p.part[0]));
    p.part[1] = rounded(rest);
    // What is left has 8 bits: its lower half is zero.
    p.part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(p.part[1])));
    return p;
  }
}

// Numbers and those 16 further on in k, as pairs.
inline __m512i paired(__m512i low, __m512i high) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_maskz_srli_epi32(kAll, low, 16), high);
}

// 32 of k of 16 rows, in pairs: out[part][row] is the row's, or, the other way round, out[part][pair] the pair of each row.
template <int kParts>
inline void rows_of_pairs(const Operand& from, int64_t row, int64_t k, __m512i out[kParts][kTile]) {
  const __mmask16 left = first(from.k - k), right = first(from.k - k - kTile);
  for (int64_t i = 0; i < kTile; ++i) {
    const bool inside = row + i < from.rows;
    const auto x = split<kParts>(numbers(from, row + i, k, inside ? left : 0)),
               y = split<kParts>(numbers(from, row + i, k + kTile, inside ? right : 0));
    for (int p = 0; p < kParts; ++p) out[p][i] = paired(x.part[p], y.part[p]);
  }
}

template <int kParts>
inline void pairs_of_rows(const Operand& from, int64_t row, int64_t k, __m512i out[kParts][kTile]) {
  const __mmask16 inside = first(from.rows - row);
  for (int64_t i = 0; i < kTile; ++i) {
    const auto x = split<kParts>(numbers(from, row, k + i, k + i < from.k ? inside : 0)),
               y = split<kParts>(numbers(from, row, k + i + kTile, k + i + kTile < from.k ? inside : 0));
    for (int p = 0; p < kParts; ++p) out[p][i] = paired(x.part[p], y.part[p]);
  }
}

// Packs one step of the panel that begins at `row`: 32 of k, from `k` on.
template <int kParts>
void pack_step(const Operand& from, Side side, int64_t row, int64_t k, uint8_t* to) {
  __m512i tile[kParts][kTile];
  const bool k_dense = from.k_stride == 1;
  for (int64_t half = 0; half < 2; ++half) {
    if (k_dense) rows_of_pairs<kParts>(from, row + half * kTile, k, tile);
    if (!k_dense) pairs_of_rows<kParts>(from, row + half * kTile, k, tile);
    for (int p = 0; p < kParts; ++p) {
      if (k_dense != (side == Side::kLeft)) transpose(tile[p]);
      uint8_t* out = to + (2 * p + half) * kTileBytes;
      for (int64_t i = 0; i < kTile; ++i) _mm512_store_si512(out + i * 64, tile[p][i]);
    }
  }
}

// Tile registers: 0 to 3 the sums (row tile, column tile), 4 and 5 the left side, 6 and 7 the right.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// A thread's use of the tile registers. They are given back at the end: their state costs time at every switch of threads.
class TileScope {
 public:
  TileScope() { _tile_loadconfig(&config_); }
  ~TileScope() { _tile_release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  static constexpr TileConfig config_{};
};

// The sums of a block of kRows x kColumns tiles, over `steps` steps.
template <int kParts, int kRows, int kColumns>
inline void multiply_tiles(const uint8_t* a, const uint8_t* b, int64_t steps) {
#define TESSERA_A(part)                              \
  _tile_loadd(4, a + (2 * (part)) * kTileBytes, 64); \
  if constexpr (kRows == 2) _tile_loadd(5, a + (2 * (part) + 1) * kTileBytes, 64)
#define TESSERA_B(part)                              \
  _tile_loadd(6, b + (2 * (part)) * kTileBytes, 64); \
  if constexpr (kColumns == 2) _tile_loadd(7, b + (2 * (part) + 1) * kTileBytes, 64)
#define TESSERA_MULTIPLY()                              \
  _tile_dpbf16ps(0, 4, 6);                              \
  if constexpr (kColumns == 2) _tile_dpbf16ps(1, 4, 7); \
  if constexpr (kRows == 2) _tile_dpbf16ps(2, 5, 6);    \
  if constexpr (kRows == 2 && kColumns == 2) _tile_dpbf16ps(3, 5, 7)
  for (int64_t s = 0; s < steps; ++s, a += kBytesOfStep<kParts>, b += kBytesOfStep<kParts>) {
    if constexpr (kParts == kOfBF16) {
      TESSERA_A(0);
      TESSERA_B(0);
      TESSERA_MULTIPLY();
      continue;
    }
    TESSERA_A(0);
    TESSERA_B(2);
    TESSERA_MULTIPLY();
    TESSERA_B(1);
    TESSERA_MULTIPLY();
    TESSERA_A(1);
    TESSERA_MULTIPLY();
    TESSERA_B(0);
    TESSERA_MULTIPLY();
    TESSERA_A(2);
    TESSERA_MULTIPLY();
    TESSERA_A(0);
    TESSERA_MULTIPLY();
  }
#undef TESSERA_A
#undef TESSERA_B
#undef TESSERA_MULTIPLY
}

// Adds a panel times a panel to c (or sets it, when `fresh`): `rows` x `columns` numbers at most 32 x 32.
template <int kParts, int kRows, int kColumns>
void multiply_panels(const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t stride, bool fresh) {
  const auto bytes = static_cast<size_t>(stride * 4);
#define TESSERA_EACH_SUM(action)                                  \
  action(0, c, bytes);                                            \
  if constexpr (kColumns == 2) action(1, c + kTile, bytes);       \
  if constexpr (kRows == 2) action(2, c + kTile * stride, bytes); \
  if constexpr (kRows == 2 && kColumns == 2) action(3, c + kTile * stride + kTile, bytes)
#define TESSERA_ZERO(tile, address, bytes) _tile_zero(tile)
  if (fresh) {
    TESSERA_EACH_SUM(TESSERA_ZERO);
  } else {
    TESSERA_EACH_SUM(_tile_loadd);
  }
  multiply_tiles<kParts, kRows, kColumns>(a, b, steps);
  TESSERA_EACH_SUM(_tile_stored);
#undef TESSERA_ZERO
#undef TESSERA_EACH_SUM
}

template <int kParts>
void multiply_edge(const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t stride, int64_t rows, int64_t columns,
                   bool fresh) {
  alignas(64) float block[kPanel * kPanel];
  if (!fresh) {
    for (int64_t i = 0; i < rows; ++i) std::memcpy(block + i * kPanel, c + i * stride, static_cast<size_t>(columns) * 4);
  }
  const auto multiply = rows > kTile ? (columns > kTile ? multiply_panels<kParts, 2, 2> : multiply_panels<kParts, 2, 1>)
                                     : (columns > kTile ? multiply_panels<kParts, 1, 2> : multiply_panels<kParts, 1, 1>);
  multiply(a, b, steps, block, kPanel, fresh);
  for (int64_t i = 0; i < rows; ++i) std::memcpy(c + i * stride, block + i * kPanel, static_cast<size_t>(columns) * 4);
}

// Asks for a panel's part of the sums while the one before it is computed.
inline void prefetch_sums(const float* c, int64_t stride) {
  for (int64_t i = 0; i < kPanel; ++i) {
    __builtin_prefetch(c + i * stride, 1);
    __builtin_prefetch(c + i * stride + kTile, 1);
  }
}

// In the order in which the operand lies in memory.
template <int kParts>
void pack_parts(const Operand& from, Side side, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to) {
  const auto pack = [&](int64_t p, int64_t s) {
    pack_step<kParts>(from, side, p * kPanel, k + s * kStep, to + (p * steps + s) * kBytesOfStep<kParts>);
  };
  if (from.k_stride == 1) {
    for (int64_t p = first; p < last; ++p) {
      for (int64_t s = 0; s < steps; ++s) pack(p, s);
    }
  } else {
    for (int64_t s = 0; s < steps; ++s) {
      for (int64_t p = first; p < last; ++p) pack(p, s);
    }
  }
}

template <int kParts>
void multiply_parts(const Block& block, const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t stride, int64_t m,
                    int64_t n, bool fresh) {
  const TileScope tiles;
  const int64_t panel_bytes = steps * kBytesOfStep<kParts>;
  for (int64_t p = block.first_row; p < block.last_row; ++p) {
    const int64_t rows = std::min(kPanel, m - p * kPanel);
    for (int64_t q = block.first_column; q < block.last_column; ++q) {
      const int64_t columns = std::min(kPanel, n - q * kPanel);
      float* to = c + p * kPanel * stride + q * kPanel;
      if (rows == kPanel && !fresh) prefetch_sums(to + kPanel, stride);
      if (rows == kPanel && columns == kPanel) {
        multiply_panels<kParts, 2, 2>(a + p * panel_bytes, b + q * panel_bytes, steps, to, stride, fresh);
      } else {
        multiply_edge<kParts>(a + p * panel_bytes, b + q * panel_bytes, steps, to, stride, rows, columns, fresh);
      }
    }
  }
}

}  // namespace

void pack_panels(const Operand& from, Side side, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to) {
  pack_parts<kOfF32>(from, side, first, last, k, steps, to);
}

void multiply_block(const Block& block, const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t stride, int64_t m,
                    int64_t n, bool fresh) {
  multiply_parts<kOfF32>(block, a, b, steps, c, stride, m, n, fresh);
}

namespace {

template <int kParts>
void pack_right(const Operand& from, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to) {
  pack_parts<kParts>(from, Side::kRight, first, last, k, steps, to);
}

// A panel of the left side at a time: it stays in L2 beside those of the right side.
void multiply(const Operand& a, const Panels& b, float* c, int64_t stride, bool fresh) {
  thread_local Scratch scratch;
  const int64_t count = steps(a.k);
  auto* packed = scratch.get<uint8_t>(count * kStepBytes);
  for (int64_t row = 0; row < a.rows; row += kPanel) {
    const int64_t rows = std::min(kPanel, a.rows - row);
    pack_panels(a.part(row, rows, 0, a.k), Side::kLeft, 0, 1, 0, count, packed);
    multiply_block({0, 1, 0, panels(b.columns)}, packed, b.data, count, c + row * stride, stride, rows, b.columns, fresh);
  }
}

// In bf16 the left side is small enough to be packed whole, so that each panel of the right side is read once.
void multiply_bf16(const Operand& a, const Panels& b, float* c, int64_t stride, bool fresh) {
  thread_local Scratch scratch;
  constexpr int64_t kMaxK = 1024;
  const int64_t rows = panels(a.rows);
  auto* packed = scratch.get<uint8_t>(rows * steps(std::min(kMaxK, a.k)) * kBytesOfStep<kOfBF16>);
  for (int64_t k = 0; k < a.k; k += kMaxK) {
    const int64_t length = std::min(kMaxK, a.k - k), count = steps(length);
    pack_parts<kOfBF16>(a.part(0, a.rows, k, length), Side::kLeft, 0, rows, 0, count, packed);
    for (int64_t q = 0; q < panels(b.columns); ++q) {
      const uint8_t* right = b.data + q * b.panel_bytes + k / kStep * kBytesOfStep<kOfBF16>;
      multiply_parts<kOfBF16>({0, rows, 0, 1}, packed, right, count, c + q * kPanel, stride, a.rows,
                              std::min(kPanel, b.columns - q * kPanel), fresh && k == 0);
    }
  }
}

}  // namespace

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

bool tiles_available() {
  static const bool available = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2), XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    const bool amx = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
    return matrix_unit_allowed() && amx && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return available;
}

const Unit& tile_unit() {
  static constexpr Unit kUnit{.dtype = DType::kF32,
                              .rows = kPanel,
                              .panel = kPanel,
                              .step = kStep,
                              .step_bytes = kStepBytes,
                              .pack = pack_right<kOfF32>,
                              .multiply = multiply};
  return kUnit;
}

const Unit& tile_bf16_unit() {
  static constexpr Unit kUnit{.dtype = DType::kBF16,
                              .rows = kPanel,
                              .panel = kPanel,
                              .step = kStep,
                              .step_bytes = kBytesOfStep<kOfBF16>,
                              .pack = pack_right<kOfBF16>,
                              .multiply = multiply_bf16};
  return kUnit;
}

}  // namespace tessera::host

#else

#include "base/error.h"
#include "host/units/vectors.h"

namespace tessera::host {

// No other processor has such a unit that this folder knows.
bool tiles_available() { return false; }

const Unit& tile_unit() {
  TESSERA_CHECK(false, "there is no matrix unit here");
  return vector_unit();
}
const Unit& tile_bf16_unit() { return tile_unit(); }
void pack_panels(const Operand&, Side, int64_t, int64_t, int64_t, int64_t, uint8_t*) {
  TESSERA_CHECK(false, "there is no matrix unit here");
}
void multiply_block(const Block&, const uint8_t*, const uint8_t*, int64_t, float*, int64_t, int64_t, int64_t, bool) {
  TESSERA_CHECK(false, "there is no matrix unit here");
}

}  // namespace tessera::host

#endif
