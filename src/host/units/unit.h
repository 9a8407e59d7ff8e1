#pragma once
// Building blocks of matrix products on the fastest unit of this processor: functions that pack the right side into panels, and
// one that computes a block of the result from them. Kernels that multiply (product.h, dense.h) are made of these, whatever the
// processor. No result depends on the number of threads.

#include <cstdint>

#include "base/shape.h"

namespace tessera::host {

// One side: rows x k numbers, element (row, k) at data[row * row_stride + k * k_stride], one of the strides being 1. Rows of
// the left side are those of the result, rows of the right side its columns.
struct Operand {
  const void* data;
  DType dtype;  // f32 or bf16
  int64_t rows, k, row_stride, k_stride;
  int64_t panel_stride = 0;  // not 0: packed by Unit::pack_left, in panels of k_stride rows that are so many numbers apart

  const float* f32(int64_t row, int64_t inner) const { return static_cast<const float*>(data) + offset(row, inner); }
  const uint16_t* bf16(int64_t row, int64_t inner) const { return static_cast<const uint16_t*>(data) + offset(row, inner); }

  // Rows [first, first + count), and numbers [begin, begin + length) of k. Of a packed side, `first` is that of a panel, and
  // `begin` is even.
  Operand part(int64_t first, int64_t count, int64_t begin, int64_t length) const {
    Operand out = *this;
    out.data = dtype == DType::kF32 ? static_cast<const void*>(f32(first, begin)) : bf16(first, begin);
    out.rows = count, out.k = length;
    return out;
  }
  // Number i of several such sides, one after the other in memory.
  Operand matrix(int64_t i) const {
    Operand out = *this;
    out.data = static_cast<const uint8_t*>(data) + i * rows * k * element_bytes(dtype);
    return out;
  }

 private:
  int64_t offset(int64_t row, int64_t inner) const {
    return (panel_stride > 0 ? row / k_stride * panel_stride : row * row_stride) + inner * k_stride;
  }
};

// Panels of a packed right side, `panel_bytes` each: so many columns.
struct Panels {
  const uint8_t* data;
  int64_t panel_bytes, columns;
};

struct Unit {
  DType dtype;         // of the operands; another type is widened or rounded to it. Sums are f32
  int64_t rows;        // the left side is best taken in multiples of so many rows
  int64_t panel;       // columns of the result in a panel of the right side
  int64_t step;        // numbers of k in a step
  int64_t step_bytes;  // bytes of a panel for one step

  // Packs the panels [first, last) over [k, k + step * steps) of the right side, k a multiple of `step`; `to` is where panel 0
  // begins, aligned to 64 bytes. What lies beyond the operand is zero.
  void (*pack)(const Operand& from, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to);

  // Packs the panels [first, last), of `rows` rows each, of a left side that is not dense along k, so that it is done once for
  // many calls of `multiply`; `to` is where panel 0 begins. Null where calls take any side as well.
  void (*pack_left)(const Operand& from, int64_t first, int64_t last, void* to);

  // c (+)= a b, the rows of c being `stride` apart; set where `fresh`, else added to. `b` is packed over a.k numbers of k.
  void (*multiply)(const Operand& a, const Panels& b, float* c, int64_t stride, bool fresh);

  int64_t panels(int64_t columns) const { return (columns + panel - 1) / panel; }
  int64_t steps(int64_t k) const { return (k + step - 1) / step; }
  int64_t panel_bytes(int64_t k) const { return steps(k) * step_bytes; }
  int64_t packed_bytes(int64_t columns, int64_t k) const { return panels(columns) * panel_bytes(k); }
  int64_t packed_left_bytes(int64_t count, int64_t k) const {
    return (count + rows - 1) / rows * rows * steps(k) * step * element_bytes(dtype);
  }
  // What pack_left has made of a side.
  Operand packed_left(const void* packed, int64_t count, int64_t k) const {
    return {packed, dtype, count, k, 1, rows, steps(k) * step * rows};
  }
  // `count` panels from `first` on of those of `columns` columns, packed over k numbers.
  Panels part(const uint8_t* packed, int64_t k, int64_t columns, int64_t first, int64_t count) const {
    const int64_t begin = first * panel, end = begin + count * panel;
    return {packed + first * panel_bytes(k), panel_bytes(k), (end < columns ? end : columns) - begin};
  }
};

// The fastest for operands of this dtype, as exact as that needs.
const Unit& unit_for(DType dtype);

}  // namespace tessera::host
