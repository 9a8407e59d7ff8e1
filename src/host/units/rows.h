#pragma once
// Layer norm, GELU and batch norm, forward and backward, on rows of f32 numbers in a core's cache.

#include <cstdint>

namespace tessera::host {

// `rows` x `width` numbers, dense and row-major, as are all arrays here that have rows.
struct RowShape {
  int64_t rows, width;
};

// y = normal * scale + offset with normal = (x - mean) / sqrt(variance + epsilon) of each row, the variance being the biased
// one. mean and inverse (of the root) are [rows], for what follows.
void norm_rows(RowShape shape, double epsilon, const float* x, const float* scale, const float* offset, float* y, float* mean,
               float* inverse);

// dx = inverse * (g - rowmean(g) - normal * rowmean(g * normal)) + add, g being dy * scale; in place of dy. To dscale and
// doffset [width] the column sums of dy * normal and of dy are added. `add` may be null.
void norm_gradient_rows(RowShape shape, const float* x, const float* scale, const float* mean, const float* inverse,
                        const float* add, float* dy, float* dscale, float* doffset);

// y = x Phi(x), Phi being the normal distribution's: the exact GELU. Within 2^-21 of the greater of 1 and |x|.
void gelu_numbers(const float* x, int64_t count, float* y);
// The same, and its derivative Phi(x) + x phi(x).
void gelu_numbers(const float* x, int64_t count, float* y, float* slope);

// y = x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), and its derivative, as exact.
void gelu_tanh_numbers(const float* x, int64_t count, float* y);
void gelu_tanh_numbers(const float* x, int64_t count, float* y, float* slope);

// x *= factor.
void multiply_numbers(const float* factor, int64_t count, float* x);

// y += row + add; `add` may be null.
void add_to_rows(RowShape shape, const float* row, const float* add, float* y);

// sums [width] += the column sums of x.
void add_column_sums(RowShape shape, const float* x, float* sums);
// sums += x.
void add_numbers(const float* x, int64_t count, float* sums);

// ---- batch norm: statistics of columns

// The mean of each column, and the sum of the squared differences from it.
void column_moments(RowShape shape, const float* x, float* mean, float* squares);

// y = (x - mean) * factor + offset [+ add], at least 0 where `relu`; add may be null, and y may be x.
struct ColumnNorm {
  const float *mean, *factor, *offset;
  bool relu;
};
void normalize_columns(RowShape shape, const ColumnNorm& norm, const float* x, const float* add, float* y);

// With g = dy, or 0 where y is not above 0 (`y` may be null: everywhere dy): sums += the column sums of g, and
// along += those of g * (x - mean).
void add_norm_sums(RowShape shape, const float* x, const float* dy, const float* y, const float* mean, float* sums,
                   float* along);

// dx = factor * (g - mean_g - (x - mean) * slope), and g to `masked` where that is not null; dx may be dy.
struct ColumnGradient {
  const float *mean, *factor, *mean_g, *slope;
};
void normalize_columns_gradient(RowShape shape, const ColumnGradient& c, const float* x, const float* dy, const float* y,
                                float* masked, float* dx);

// ---- bf16: numbers of f32, and f32 as the nearest bf16, ties to even; a NaN stays one

void widen(const uint16_t* x, int64_t count, float* y);
void narrow(const float* x, int64_t count, uint16_t* y);

// As above, of bf16 numbers that are widened and rounded in the same pass: with the bits of `widen` before and `narrow` after.
void gelu_numbers(const uint16_t* x, int64_t count, uint16_t* y);
void gelu_numbers(const uint16_t* x, int64_t count, uint16_t* y, float* slope);
void gelu_tanh_numbers(const uint16_t* x, int64_t count, uint16_t* y);
void gelu_tanh_numbers(const uint16_t* x, int64_t count, uint16_t* y, float* slope);
void add_column_sums(RowShape shape, const uint16_t* x, float* sums);
// y = x * factor.
void multiply_numbers(const float* x, const float* factor, int64_t count, uint16_t* y);
// y = x + row + add. Rows of x are `x_stride` numbers apart, those of add (which may be null) and y `y_stride`.
void add_to_rows(RowShape shape, const float* row, const float* x, int64_t x_stride, const uint16_t* add, uint16_t* y,
                 int64_t y_stride);
// Likewise.
void normalize_columns(RowShape shape, const ColumnNorm& norm, const float* x, int64_t x_stride, const uint16_t* add,
                       uint16_t* y, int64_t y_stride);

}  // namespace tessera::host
