#pragma once
// Products on the matrix unit (Intel AMX), in pieces: operands packed as bf16 tiles, and blocks of a result from packed panels.
// What product.h says of exactness is decided here. All of it runs only where product_f32_available().

#include <cstdint>

namespace tessera::host {

// A panel is 32 rows (or columns) of a result; a step is 32 of the contracted dimension k. For each step of each panel the
// three bf16 parts of its numbers lie one after the other.
inline constexpr int64_t kPanel = 32, kStep = 32, kStepBytes = 6144;

inline int64_t panels(int64_t rows) { return (rows + kPanel - 1) / kPanel; }
inline int64_t steps(int64_t k) { return (k + kStep - 1) / kStep; }
inline int64_t packed_bytes(int64_t rows, int64_t k) { return panels(rows) * steps(k) * kStepBytes; }

// One operand: rows x k numbers, element (row, k) at data[row * row_stride + k * k_stride], one of the strides being 1. Rows of
// the left side are those of the result, rows of the right side its columns.
struct Operand {
  const float* data;
  int64_t rows, k, row_stride, k_stride;
};
enum class Side { kLeft, kRight };

// Packs the panels [first, last) over [k, k + 32 * steps) of the contracted dimension, k a multiple of 32; `to` is where panel
// 0 begins, aligned to 64 bytes.
void pack_panels(const Operand& from, Side side, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to);

// The result's panels [first_row, last_row) x [first_column, last_column).
struct Block {
  int64_t first_row, last_row, first_column, last_column;
};

// Adds a b to a block of c [m, n], dense and row-major, or sets it when `fresh`; `a` and `b` are packed over `steps` steps.
void multiply_block(const Block& block, const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t m, int64_t n,
                    bool fresh);

}  // namespace tessera::host
