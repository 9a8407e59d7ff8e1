// Products of bf16 numbers by vdpbf16ps, which adds two of them to a sum in f32 at once. Highway has no such target.

#include "host/units/cpu_level.h"
#include "host/units/vectors.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "host/units/scratch.h"
#include "host/units/unroll.h"

// The rest of this file runs only where vector_bf16_available().
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif

#include "host/units/avx512.h"

namespace tessera::host {
namespace {

// Numbers k and k + 1 of a row, or column, are a pair: 32 bits, k in the lower half.
constexpr int64_t kLanes = 16, kVectors = 2, kColumns = kVectors * kLanes, kRows = 14;
constexpr int64_t kChunk = 768;  // of k: a panel of the right side stays in L1, the rows of the left side in L2

constexpr __mmask32 kWhole = 0xffffffff;

// The first `count` of kColumns numbers of 16 bits; none where it is negative.
inline __mmask32 first_numbers(int64_t count) {
  return static_cast<__mmask32>((uint64_t{1} << std::clamp<int64_t>(count, 0, kColumns)) - 1);
}

// Up to kColumns numbers from (row, k) on, which lie one after the other, as bf16.
inline __m512i load(const Operand& from, int64_t row, int64_t k, __mmask32 mask) {
  if (from.dtype == DType::kBF16) return _mm512_maskz_loadu_epi16(mask, from.bf16(row, k));
  const float* at = from.f32(row, k);
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), at);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> kLanes), at + kLanes);
  return reinterpret_cast<__m512i>(_mm512_maskz_cvtne2ps_pbh(kWhole, high, low));
}

// Numbers k and k + 1 of kColumns rows, where rows lie one after the other: the halves of the rows' pairs.
struct Halves {
  __m512i low, high;
};
inline Halves halves(const Operand& from, int64_t row, int64_t k, __mmask32 mask) {
  const bool last = k + 1 == from.k;
  return {load(from, row, k, mask), last ? _mm512_setzero_si512() : load(from, row, k + 1, mask)};
}

// The pairs of 16 rows from kFirst on.
template <int kFirst>
inline __m512i pairs(const Halves& of) {
  alignas(64) static constexpr auto kFrom = [] {
    std::array<uint16_t, 2 * kLanes> from{};
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(kFirst + i / 2 + i % 2 * kColumns);
    return from;
  }();
  return _mm512_maskz_permutex2var_epi16(kWhole, of.low, _mm512_load_si512(kFrom.data()), of.high);
}

// `count` numbers of a row from k on, which lie one after the other, and zeros up to an even number of them.
inline void copy_row(const Operand& from, int64_t row, int64_t k, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += kColumns) {
    const __mmask32 inside = first_numbers(count - i), written = first_numbers((count - i + 1) / 2 * 2);
    _mm512_mask_storeu_epi16(to + i, written, load(from, row, k + i, inside));
  }
}

// ---- the right side: a panel is [pairs][kColumns]

// Columns that lie dense along k, and zeros instead of those past the end.
void pack_columns(const Operand& from, int64_t column, int64_t columns, int64_t k, int64_t count, uint32_t* to) {
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const int64_t written = std::min(kLanes, (count - i + 1) / 2);
    const __mmask32 inside = first_numbers(count - i);
    for (int64_t j = 0; j < columns; j += kLanes) {
      __m512i pair[kLanes];
      for (int64_t c = 0; c < kLanes; ++c) {
        pair[c] = j + c < columns ? load(from, column + j + c, k + i, inside) : _mm512_setzero_si512();
      }
      transpose(pair);
      for (int64_t p = 0; p < written; ++p) _mm512_storeu_si512(to + (i / 2 + p) * kColumns + j, pair[p]);
    }
  }
}

// Pair k of a panel's columns, which lie side by side in memory.
inline void pack_pair(const Operand& from, int64_t column, int64_t k, __mmask32 columns, uint32_t* to) {
  const Halves of = halves(from, column, k, columns);
  _mm512_storeu_si512(to, pairs<0>(of));
  _mm512_storeu_si512(to + kLanes, pairs<kLanes>(of));
}

void pack_panel(const Operand& from, int64_t column, int64_t k, int64_t count, uint32_t* to) {
  const int64_t columns = std::min(kColumns, from.rows - column), inside = std::clamp<int64_t>(from.k - k, 0, 2 * count);
  if (columns < kColumns || inside < 2 * count) std::fill_n(to, count * kColumns, 0U);
  if (from.row_stride != 1) return pack_columns(from, column, columns, k, inside, to);
  for (int64_t i = 0; i < inside; i += 2, to += kColumns) pack_pair(from, column, k + i, first_numbers(columns), to);
}

// Whole panels of columns that lie side by side in memory, in its order: as in vectors.cc.
void pack_across(const Operand& from, int64_t first_panel, int64_t last, int64_t k, int64_t count, uint32_t* panels) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = first_panel; p < last; ++p) {
      pack_pair(from, p * kColumns, k + 2 * i, kWhole, panels + (p * count + i) * kColumns);
    }
  }
}

void pack(const Operand& from, int64_t first_panel, int64_t last, int64_t k, int64_t steps, uint8_t* to) {
  auto* panels = reinterpret_cast<uint32_t*>(to);
  int64_t done = first_panel;
  if (from.row_stride == 1 && k + 2 * steps <= from.k + 1) {
    done = std::max(first_panel, std::min(last, from.rows / kColumns));
    pack_across(from, first_panel, done, k, steps, panels);
  }
  for (int64_t p = done; p < last; ++p) pack_panel(from, p * kColumns, k, steps, panels + p * kColumns * steps);
}

// ---- the left side: where it lies, or panels of kRows rows

// Pair k of row kRows p + r is at data[p * panel + r * row + k * step], in numbers of 16 bits.
struct Left {
  const uint16_t* data;
  int64_t panel, row, step;
};

// The panels [first_panel, last) of rows that are not dense along k.
void pack_left(const Operand& a, int64_t first_panel, int64_t last, void* to) {
  static_assert(2 * kRows <= kColumns);
  const int64_t pair_count = (a.k + 1) / 2;
  auto* panels = static_cast<uint32_t*>(to);
  for (int64_t k = 0; k < pair_count; ++k) {
    for (int64_t p = first_panel; p < last; p += 2) {
      const int64_t inside = std::min(a.rows, last * kRows) - p * kRows;
      const Halves of = halves(a, p * kRows, 2 * k, first_numbers(std::min(inside, 2 * kRows)));
      uint32_t* panel = panels + (p * pair_count + k) * kRows;
      _mm512_mask_storeu_epi32(panel, first(std::min(inside, kRows)), pairs<0>(of));
      if (inside <= kRows) continue;
      _mm512_mask_storeu_epi32(panel + pair_count * kRows, first(std::min(inside - kRows, kRows)), pairs<kRows>(of));
    }
  }
}

Left left_of(const Operand& a, Scratch& scratch) {
  if (a.panel_stride > 0) return {a.bf16(0, 0), a.panel_stride, 2, 2 * kRows};
  const int64_t even = (a.k + 1) / 2 * 2;
  if (a.k_stride == 1) {
    if (a.dtype == DType::kBF16 && a.k == even) return {a.bf16(0, 0), kRows * a.row_stride, a.row_stride, 2};
    auto* to = scratch.get<uint16_t>(a.rows * even);
    for (int64_t r = 0; r < a.rows; ++r) copy_row(a, r, 0, a.k, to + r * even);
    return {to, kRows * even, even, 2};
  }
  const int64_t panels = (a.rows + kRows - 1) / kRows;
  auto* to = scratch.get<uint32_t>(panels * kRows * even / 2);
  pack_left(a, 0, panels, to);
  return {reinterpret_cast<const uint16_t*>(to), kRows * even, 2, 2 * kRows};
}

// ---- blocks of the result

struct Result {
  float* data;
  int64_t stride, columns;
  bool fresh;
};

inline __m512bh pair_everywhere(const uint16_t* at) {
  int32_t pair;
  std::memcpy(&pair, at, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

template <int kR, int kV>
inline void tile(const uint16_t* __restrict a, int64_t row, int64_t step, const uint32_t* __restrict b, int64_t count,
                 const Result& c) {
  __m512 sums[kR][kV];
  TESSERA_UNROLL
  for (int i = 0; i < kR; ++i) {
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) sums[i][j] = _mm512_setzero_ps();
  }
  if (!c.fresh) {
    TESSERA_UNROLL
    for (int i = 0; i < kR; ++i) {
      TESSERA_UNROLL
      for (int j = 0; j < kV; ++j) sums[i][j] = _mm512_loadu_ps(c.data + i * c.stride + j * kLanes);
    }
  }
  // Three rows of the left side for each address: with one for all, their distances do not fit into registers.
  constexpr int kGroups = (kR + 2) / 3;
  const uint16_t* left[kGroups];
  TESSERA_UNROLL
  for (int g = 0; g < kGroups; ++g) left[g] = a + 3 * g * row;
  for (int64_t k = 0; k < count; ++k, b += kColumns) {
    __m512bh right[kV];
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) right[j] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + j * kLanes));
    TESSERA_UNROLL
    for (int i = 0; i < kR; ++i) {
      const __m512bh pair = pair_everywhere(left[i / 3] + i % 3 * row);
      TESSERA_UNROLL
      for (int j = 0; j < kV; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], pair, right[j]);
    }
    TESSERA_UNROLL
    for (int g = 0; g < kGroups; ++g) left[g] += step;
  }
  TESSERA_UNROLL
  for (int i = 0; i < kR; ++i) {
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) _mm512_storeu_ps(c.data + i * c.stride + j * kLanes, sums[i][j]);
  }
}

// Of fewer columns than a panel has.
template <int kR>
[[gnu::noinline]] void edge_tile(const uint16_t* a, int64_t row, int64_t step, const uint32_t* b, int64_t count,
                                 const Result& c) {
  alignas(64) float block[kR * kColumns] = {};
  if (!c.fresh) {
    for (int i = 0; i < kR; ++i) std::copy_n(c.data + i * c.stride, c.columns, block + i * kColumns);
  }
  const Result to{block, kColumns, kColumns, c.fresh};
  c.columns <= kLanes ? tile<kR, 1>(a, row, step, b, count, to) : tile<kR, kVectors>(a, row, step, b, count, to);
  for (int i = 0; i < kR; ++i) std::copy_n(block + i * kColumns, c.columns, c.data + i * c.stride);
}

template <int kR>
[[gnu::noinline]] void whole_tile(const uint16_t* a, int64_t row, int64_t step, const uint32_t* b, int64_t count,
                                  const Result& c) {
  tile<kR, kVectors>(a, row, step, b, count, c);
}

// A panel of the right side times all rows.
void multiply_panel(const Left& a, int64_t rows, const uint32_t* b, int64_t count, const Result& c) {
  int64_t i = 0;
  const auto part = [&]<int kR>() {
    const uint16_t* left = a.data + i / kRows * a.panel + i % kRows * a.row;
    const Result to{c.data + i * c.stride, c.stride, c.columns, c.fresh};
    c.columns == kColumns ? whole_tile<kR>(left, a.row, a.step, b, count, to)
                          : edge_tile<kR>(left, a.row, a.step, b, count, to);
    i += kR;
  };
  while (i + kRows <= rows) part.template operator()<kRows>();
  if (i + 8 <= rows) part.template operator()<8>();
  if (i + 4 <= rows) part.template operator()<4>();
  if (i + 2 <= rows) part.template operator()<2>();
  if (i < rows) part.template operator()<1>();
}

void multiply(const Operand& a, const Panels& b, float* c, int64_t stride, bool fresh) {
  thread_local Scratch scratch;
  for (int64_t k = 0; k < a.k; k += kChunk) {
    const int64_t count = std::min(kChunk, a.k - k);
    const Left left = left_of(a.part(0, a.rows, k, count), scratch);
    const uint8_t* panel = b.data;
    for (int64_t column = 0; column < b.columns; column += kColumns, panel += b.panel_bytes) {
      const uint32_t* right = reinterpret_cast<const uint32_t*>(panel) + k / 2 * kColumns;
      const int64_t columns = std::min(kColumns, b.columns - column);
      multiply_panel(left, a.rows, right, (count + 1) / 2, {c + column, stride, columns, fresh && k == 0});
    }
  }
}

}  // namespace

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const Unit& vector_bf16_unit() {
  static constexpr Unit kUnit{.dtype = DType::kBF16,
                              .rows = kRows,
                              .panel = kColumns,
                              .step = 2,
                              .step_bytes = kColumns * 4,
                              .pack = pack,
                              .pack_left = pack_left,
                              .multiply = multiply};
  return kUnit;
}

bool vector_bf16_available() {
  static const bool available = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return vector_bf16_allowed() && available;
}

}  // namespace tessera::host

#else

#include "base/error.h"

namespace tessera::host {

bool vector_bf16_available() { return false; }
const Unit& vector_bf16_unit() {
  TESSERA_CHECK(false, "this processor does not multiply bf16");
  return vector_unit();
}

}  // namespace tessera::host

#endif
