#pragma once
// A dense layer with what comes before and after it, for weights small enough to stay in a core's cache: a block of rows goes
// through all of it before the next one, so that nothing between the arrays named here touches memory. Products are those of
// host/tiles.h: as exact as f32. Runs only where product_f32_available().

#include <cstdint>

#include "host/parallel_for.h"
#include "ir/composites.h"

namespace tessera::host {

// All arrays are f32, dense and row-major.
struct Dense {
  int64_t rows = 0, in = 0, out = 0;
  ir::DenseInput input = ir::DenseInput::kPlain;
  double epsilon = 0;  // of the norm
};

struct DenseArguments {
  const float *x, *kernel, *bias;                   // [rows, in], [in, out], [out]
  const float *scale = nullptr, *offset = nullptr;  // of the norm, [in]
  const float* residual = nullptr;                  // [rows, out], or null
};

// y [rows, out] = f(x) kernel + bias + residual.
void dense_f32(const Dense& dense, const DenseArguments& arguments, float* y, const ParallelFor& parallel);

struct DenseGradientArguments {
  const float *dy, *x, *kernel;                     // [rows, out], [rows, in], [in, out]
  const float *scale = nullptr, *offset = nullptr;  // of the norm, [in]
  const float* add = nullptr;                       // [rows, in], or null; with a norm only
};
struct DenseGradient {
  float *dx, *dkernel, *dbias;                  // as x, kernel and bias
  float *dscale = nullptr, *doffset = nullptr;  // of the norm
};

// The cotangents of everything but the residual, whose is dy itself; `add` is added to dx. Sums over rows are taken in parts
// that depend on the sizes alone: the result does not depend on the number of threads.
void dense_gradient_f32(const Dense& dense, const DenseGradientArguments& arguments, const DenseGradient& gradient,
                        const ParallelFor& parallel);

}  // namespace tessera::host
