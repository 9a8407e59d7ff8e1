// Highway compiles this file once for each instruction set and picks one when the program runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/units/vectors.cc"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "host/units/scratch.h"
#include "host/units/unroll.h"
#include "host/units/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What is not exported is local: position-independent code does not inline functions that others could replace.
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;

// The sums of kRows x kVectors vectors stay in registers, with some left for a row of the right side and a number of the left.
constexpr int kVectors = 2, kRows = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 14 : 6;
constexpr int64_t kChunk = 384;  // of k: a panel of the right side stays in L1, the rows of the left side in L2

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }
HWY_INLINE int64_t panel_columns() { return kVectors * lanes(); }

float number(const Operand& from, int64_t row, int64_t k) {
  if (from.dtype == DType::kF32) return *from.f32(row, k);
  return std::bit_cast<float>(static_cast<uint32_t>(*from.bf16(row, k)) << 16);
}

// `count` numbers of f32, which lie one after the other in memory from (row, k) on.
HWY_INLINE void copy(const Operand& from, int64_t row, int64_t k, int64_t count, float* to) {
  if (from.dtype == DType::kF32) {
    std::memcpy(to, from.f32(row, k), static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const uint16_t* bits = from.bf16(row, k);
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
}

// ---- the right side: a panel is [k][panel_columns()]

#if HWY_TARGET != HWY_SCALAR
// Four columns that lie dense along k.
void turn_columns(const Operand& from, int64_t column, int64_t k, int64_t count, float* to) {
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> dd;
  const float *a = from.f32(column, k), *b = from.f32(column + 1, k), *c = from.f32(column + 2, k),
              *e = from.f32(column + 3, k);
  const int64_t width = panel_columns();
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const auto va = hn::LoadU(d, a + i), vb = hn::LoadU(d, b + i), vc = hn::LoadU(d, c + i), ve = hn::LoadU(d, e + i);
    const auto ab0 = hn::BitCast(dd, hn::InterleaveLower(d, va, vb)), ab1 = hn::BitCast(dd, hn::InterleaveUpper(d, va, vb));
    const auto ce0 = hn::BitCast(dd, hn::InterleaveLower(d, vc, ve)), ce1 = hn::BitCast(dd, hn::InterleaveUpper(d, vc, ve));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab0, ce0)), d, to + i * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab0, ce0)), d, to + (i + 1) * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, ab1, ce1)), d, to + (i + 2) * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, ab1, ce1)), d, to + (i + 3) * width);
  }
  for (; i < count; ++i) {
    float* at = to + i * width;
    at[0] = a[i], at[1] = b[i], at[2] = c[i], at[3] = e[i];
  }
}
#endif

void pack_panel(const Operand& from, int64_t column, int64_t k, int64_t count, float* to) {
  const int64_t width = panel_columns(), columns = std::min(width, from.rows - column);
  const int64_t inside = std::clamp<int64_t>(from.k - k, 0, count);
  if (columns < width || inside < count) std::fill_n(to, count * width, 0.0F);
  if (from.row_stride == 1) {
    for (int64_t i = 0; i < inside; ++i) copy(from, column, k + i, columns, to + i * width);
    return;
  }
  int64_t done = 0;  // columns
#if HWY_TARGET != HWY_SCALAR
  if (from.dtype == DType::kF32) {
    for (; done + 4 <= columns; done += 4) turn_columns(from, column + done, k, inside, to + done);
  }
#endif
  for (int64_t j = done; j < columns; ++j) {
    for (int64_t i = 0; i < inside; ++i) to[i * width + j] = number(from, column + j, k + i);
  }
}

// Whole panels of columns that lie side by side in memory, in its order: one panel after the other would read a row's numbers
// with the rows of all k in between.
void pack_across(const Operand& from, int64_t first, int64_t last, int64_t k, int64_t count, float* panels) {
  const D d;
  const int64_t width = panel_columns();
  for (int64_t i = 0; i < count; ++i) {
    const float* at = from.f32(first * width, k + i);
    float* to = panels + (first * count + i) * width;
    for (int64_t p = first; p < last; ++p, at += width, to += count * width) {
      TESSERA_UNROLL
      for (int j = 0; j < kVectors; ++j) hn::Store(hn::LoadU(d, at + j * lanes()), d, to + j * lanes());
    }
  }
}

// ---- the left side: where it lies, or panels of kRows rows

// Element (kRows p + r, k) is at data[p * panel + r * row + k * step].
struct Left {
  const float* data;
  int64_t panel, row, step;
};

// The panels [first, last) of rows that are not dense along k.
void pack_rows(const Operand& a, int64_t first, int64_t last, float* to) {
  const int64_t whole = std::min(last, a.rows / kRows);
  for (int64_t k = 0; k < a.k; ++k) {
    float* at = to + k * kRows;
    if (a.dtype == DType::kF32) {
      const float* row = a.f32(0, k);
      for (int64_t p = first; p < whole; ++p) std::memcpy(at + p * a.k * kRows, row + p * kRows, kRows * sizeof(float));
    } else {
      for (int64_t p = first; p < whole; ++p) copy(a, p * kRows, k, kRows, at + p * a.k * kRows);
    }
    if (whole < last) copy(a, whole * kRows, k, a.rows - whole * kRows, at + whole * a.k * kRows);
  }
}

// Rows that are a multiple of kSameSet numbers (4096 bytes) apart share one set of L1, which holds 8 or 12 of them. They are
// copied, with kApart numbers in between, where at least kWorthCopying columns are multiplied with them.
constexpr int64_t kSameSet = 1024, kApart = 16, kWorthCopying = 512;

Left left_of(const Operand& a, int64_t columns, Scratch& scratch) {
  if (a.panel_stride > 0) return {a.f32(0, 0), a.panel_stride, 1, kRows};
  if (a.k_stride == 1) {
    const bool apart = kRows <= 8 || a.row_stride % kSameSet != 0 || columns < kWorthCopying;
    if (a.dtype == DType::kF32 && apart) return {a.f32(0, 0), kRows * a.row_stride, a.row_stride, 1};
    const int64_t stride = a.k + kApart;
    float* to = scratch.get<float>(a.rows * stride);
    for (int64_t r = 0; r < a.rows; ++r) copy(a, r, 0, a.k, to + r * stride);
    return {to, kRows * stride, stride, 1};
  }
  const int64_t panels = (a.rows + kRows - 1) / kRows;
  float* to = scratch.get<float>(panels * kRows * a.k);
  pack_rows(a, 0, panels, to);
  return {to, kRows * a.k, 1, kRows};
}

// ---- blocks of the result

struct Result {
  float* data;
  int64_t stride, columns;
  bool fresh;
};

template <int kR, int kV>
HWY_INLINE void tile(const float* HWY_RESTRICT a, int64_t row, int64_t step, const float* HWY_RESTRICT b, int64_t count,
                     const Result& c) {
  const D d;
  const int64_t width = panel_columns();
  V sums[kR][kV];
  TESSERA_UNROLL
  for (int i = 0; i < kR; ++i) {
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) sums[i][j] = hn::Zero(d);
  }
  if (!c.fresh) {
    TESSERA_UNROLL
    for (int i = 0; i < kR; ++i) {
      TESSERA_UNROLL
      for (int j = 0; j < kV; ++j) sums[i][j] = hn::LoadU(d, c.data + i * c.stride + j * lanes());
    }
  }
  // Three rows of the left side for each address: with one for all, their distances do not fit into registers.
  constexpr int kGroups = (kR + 2) / 3;
  const float* left[kGroups];
  TESSERA_UNROLL
  for (int g = 0; g < kGroups; ++g) left[g] = a + 3 * g * row;
  for (int64_t k = 0; k < count; ++k, b += width) {
    V right[kV];
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) right[j] = hn::Load(d, b + j * lanes());
    TESSERA_UNROLL
    for (int i = 0; i < kR; ++i) {
      const V number = hn::Set(d, left[i / 3][i % 3 * row]);
      TESSERA_UNROLL
      for (int j = 0; j < kV; ++j) sums[i][j] = hn::MulAdd(number, right[j], sums[i][j]);
    }
    TESSERA_UNROLL
    for (int g = 0; g < kGroups; ++g) left[g] += step;
  }
  TESSERA_UNROLL
  for (int i = 0; i < kR; ++i) {
    TESSERA_UNROLL
    for (int j = 0; j < kV; ++j) hn::StoreU(sums[i][j], d, c.data + i * c.stride + j * lanes());
  }
}

// Of fewer columns than a panel has.
template <int kR>
HWY_NOINLINE void edge_tile(const float* a, int64_t row, int64_t step, const float* b, int64_t count, const Result& c) {
  HWY_ALIGN float block[kR * kVectors * 16];
  const int64_t width = panel_columns();
  if (!c.fresh) {
    std::fill_n(block, kR * width, 0.0F);
    for (int i = 0; i < kR; ++i) std::copy_n(c.data + i * c.stride, c.columns, block + i * width);
  }
  const Result to{block, width, width, c.fresh};
  c.columns <= lanes() ? tile<kR, 1>(a, row, step, b, count, to) : tile<kR, kVectors>(a, row, step, b, count, to);
  for (int i = 0; i < kR; ++i) std::copy_n(block + i * width, c.columns, c.data + i * c.stride);
}

template <int kR>
HWY_NOINLINE void whole_tile(const float* a, int64_t row, int64_t step, const float* b, int64_t count, const Result& c) {
  tile<kR, kVectors>(a, row, step, b, count, c);
}

// A panel of the right side times all rows.
void multiply_panel(const Left& a, int64_t rows, const float* b, int64_t count, const Result& c) {
  int64_t i = 0;
  const auto part = [&]<int kR>() {
    const float* left = a.data + i / kRows * a.panel + i % kRows * a.row;
    const Result to{c.data + i * c.stride, c.stride, c.columns, c.fresh};
    c.columns == panel_columns() ? whole_tile<kR>(left, a.row, a.step, b, count, to)
                                 : edge_tile<kR>(left, a.row, a.step, b, count, to);
    i += kR;
  };
  while (i + kRows <= rows) part.template operator()<kRows>();
  if constexpr (kRows > 8) {
    if (i + 8 <= rows) part.template operator()<8>();
  }
  if (i + 4 <= rows) part.template operator()<4>();
  if (i + 2 <= rows) part.template operator()<2>();
  if (i < rows) part.template operator()<1>();
}

}  // namespace

Unit sizes() {
  const auto bytes = panel_columns() * static_cast<int64_t>(sizeof(float));
  return {.dtype = DType::kF32, .rows = kRows, .panel = panel_columns(), .step = 1, .step_bytes = bytes};
}

void pack(const Operand& from, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to) {
  const int64_t width = panel_columns();
  float* panels = reinterpret_cast<float*>(to);
  int64_t done = first;
  if (from.row_stride == 1 && from.dtype == DType::kF32 && k + steps <= from.k) {
    done = std::max(first, std::min(last, from.rows / width));
    pack_across(from, first, done, k, steps, panels);
  }
  for (int64_t p = done; p < last; ++p) pack_panel(from, p * width, k, steps, panels + p * width * steps);
}

void pack_left(const Operand& from, int64_t first, int64_t last, void* to) {
  pack_rows(from, first, last, static_cast<float*>(to));
}

void multiply(const Operand& a, const Panels& b, float* c, int64_t stride, bool fresh) {
  thread_local Scratch scratch;
  const int64_t width = panel_columns();
  for (int64_t k = 0; k < a.k; k += kChunk) {
    const int64_t count = std::min(kChunk, a.k - k);
    const Left left = left_of(a.part(0, a.rows, k, count), b.columns, scratch);
    const uint8_t* panel = b.data;
    for (int64_t column = 0; column < b.columns; column += width, panel += b.panel_bytes) {
      const float* right = reinterpret_cast<const float*>(panel) + k * width;
      const int64_t columns = std::min(width, b.columns - column);
      multiply_panel(left, a.rows, right, count, {c + column, stride, columns, fresh && k == 0});
    }
  }
}

}  // namespace tessera::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::host {
namespace {
HWY_EXPORT(sizes);
HWY_EXPORT(pack);
HWY_EXPORT(pack_left);
HWY_EXPORT(multiply);
}  // namespace

const Unit& vector_unit() {
  static const Unit unit = [] {
    Unit chosen = HWY_DYNAMIC_DISPATCH(sizes)();
    chosen.pack = HWY_DYNAMIC_DISPATCH(pack);
    chosen.pack_left = HWY_DYNAMIC_DISPATCH(pack_left);
    chosen.multiply = HWY_DYNAMIC_DISPATCH(multiply);
    return chosen;
  }();
  return unit;
}

}  // namespace tessera::host
#endif
