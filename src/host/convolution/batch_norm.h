#pragma once
// Batch norm in training, fused with the addition and the ReLU after it. Statistics and sums are f32 within a block of rows and
// f64 over the blocks. Blocks depend on the sizes alone, so the result does not depend on the number of threads.

#include <cstdint>

#include "base/shape.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// All arrays are dense and row-major. Arrays with a dimension `rows` have the type `dtype`, f32 or bf16; the others are f32.
struct BatchNorm {
  int64_t rows = 0, channels = 0;
  double epsilon = 0;
  bool relu = false;
  DType dtype = DType::kF32;
};

struct BatchNormArguments {
  const void* x;                   // [rows, channels]
  const float *scale, *bias;       // [channels]
  const void* residual = nullptr;  // [rows, channels], or null
};
struct BatchNormResults {
  void* y;                 // [rows, channels]
  float *mean, *variance;  // [channels]; the variance is the biased one
};

// y = relu((x - mean) / sqrt(variance + epsilon) * scale + bias + residual).
void batch_norm(const BatchNorm& norm, const BatchNormArguments& arguments, const BatchNormResults& results,
                const ParallelFor& parallel);

// factor [channels] = scale / sqrt(variance + epsilon).
void norm_factors(int64_t channels, double epsilon, const float* scale, const float* variance, float* factor);

struct BatchNormInferenceArguments {
  const void* x;                                // [rows, channels]
  const float *scale, *bias, *mean, *variance;  // [channels]
  const void* residual = nullptr;               // [rows, channels], or null
};

// y [rows, channels] as above, with a mean and a variance that are given.
void batch_norm_inference(const BatchNorm& norm, const BatchNormInferenceArguments& arguments, void* y,
                          const ParallelFor& parallel);

struct BatchNormGradientArguments {
  const void *dy, *x;
  const void* y;  // where `relu`, else null
  const float *scale, *mean, *variance;
};
struct BatchNormGradient {
  void* dx;
  float *dscale, *dbias;
  void* dresidual = nullptr;  // or null
};

// The cotangents of all arguments. Of the results only y has a cotangent.
void batch_norm_gradient(const BatchNorm& norm, const BatchNormGradientArguments& arguments, const BatchNormGradient& gradient,
                         const ParallelFor& parallel);

}  // namespace tessera::host
