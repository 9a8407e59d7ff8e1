#pragma once
// What surrounds a dense layer, on rows of f32 numbers that are in a core's cache: layer norm and GELU, forward and backward.

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

// bf16 as f32, and f32 as the nearest bf16, ties to even; a NaN stays one.
void widen(const uint16_t* x, int64_t count, float* y);
void narrow(const float* x, int64_t count, uint16_t* y);

}  // namespace tessera::host
