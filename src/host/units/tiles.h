#pragma once
// Products on the matrix unit (Intel AMX), in pieces: operands packed as bf16 tiles, and blocks of a result from packed panels.
//
// AMX multiplies bf16 and adds in f32. An f32 number is exactly the sum of three bf16 numbers (8 + 8 + 8 bits), so a product of
// two matrices is the sum of nine bf16 products; the three smallest, below 2^-24 of the result, are left out. What remains is
// as exact as f32 products with f32 sums (H. Henry, P. Tang, A. Heinecke: Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations, 2019; XLA calls it BF16_BF16_F32_X6). An operand that is not finite gives NaN;
// subnormal operands count as zero.

#include <cstdint>

#include "host/units/unit.h"

namespace tessera::host {

// Whether this machine has the unit and the kernel lets this process use it. The answer does not change. All else of this file
// is only for machines that have it.
bool tiles_available();

// Products of f32, as above, and of bf16: f32 is rounded to the nearest bf16, ties to even. They pack the left side in each call
// of `multiply`.
const Unit& tile_unit();
const Unit& tile_bf16_unit();

// ---- both sides packed by the caller

// A panel is 32 rows (or columns) of a result; a step is 32 of the contracted dimension k. For each step of each panel the
// three bf16 parts of its numbers lie one after the other.
inline constexpr int64_t kPanel = 32, kStep = 32, kStepBytes = 6144;

inline int64_t panels(int64_t rows) { return (rows + kPanel - 1) / kPanel; }
inline int64_t steps(int64_t k) { return (k + kStep - 1) / kStep; }
inline int64_t packed_bytes(int64_t rows, int64_t k) { return panels(rows) * steps(k) * kStepBytes; }

enum class Side { kLeft, kRight };

// Packs the panels [first, last) over [k, k + 32 * steps) of the contracted dimension, k a multiple of 32; `to` is where panel
// 0 begins, aligned to 64 bytes.
void pack_panels(const Operand& from, Side side, int64_t first, int64_t last, int64_t k, int64_t steps, uint8_t* to);

// The result's panels [first_row, last_row) x [first_column, last_column).
struct Block {
  int64_t first_row, last_row, first_column, last_column;
};

// Adds a b to a block of c, m rows of n numbers, `stride` apart, or sets it when `fresh`; `a` and `b` are packed over `steps`
// steps.
void multiply_block(const Block& block, const uint8_t* a, const uint8_t* b, int64_t steps, float* c, int64_t stride, int64_t m,
                    int64_t n, bool fresh);

}  // namespace tessera::host
