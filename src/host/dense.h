#pragma once
// A dense layer fused with the norm or activation before it and the addition after it. One block of rows goes through all steps
// before the next block begins, so that intermediate results stay in cache. Products are those of host/units/unit.h.

#include <cstdint>

#include "base/shape.h"
#include "host/units/parallel_for.h"
#include "host/units/unit.h"
#include "ir/composites.h"

namespace tessera::host {

// All arrays are dense and row-major. Arrays with a dimension `rows` have the type `dtype`, f32 or bf16; the others are f32.
// Operands of products are rounded to `dtype`; sums and everything else are f32.
struct Dense {
  int64_t rows = 0, in = 0, out = 0;
  ir::DenseInput input = ir::DenseInput::kPlain;
  double epsilon = 0;  // of the norm
  DType dtype = DType::kF32;
};

struct DenseArguments {
  const void* x;                                    // [rows, in]
  const float *kernel, *bias;                       // [in, out], [out]; kernel null where it is packed
  const float *scale = nullptr, *offset = nullptr;  // of the norm, [in]
  const void* residual = nullptr;                   // [rows, out], or null
  const uint8_t* packed = nullptr;                  // what pack_dense() made of the kernel, or null
};

// The kernel of a layer, packed once for many calls of `dense`. `to` is aligned to Scratch::kAlign bytes.
int64_t packed_dense_bytes(const Unit& unit, int64_t in, int64_t out);
void pack_dense(const Unit& unit, int64_t in, int64_t out, const float* kernel, uint8_t* to, const ParallelFor& parallel);

// y [rows, out] = f(x) kernel + bias + residual, on the unit for the dtype or on a given one.
void dense(const Dense& layer, const DenseArguments& arguments, void* y, const ParallelFor& parallel);
void dense_on(const Unit& unit, const Dense& layer, const DenseArguments& arguments, void* y, const ParallelFor& parallel);

struct DenseGradientArguments {
  const void *dy, *x;                               // [rows, out], [rows, in]
  const float* kernel;                              // [in, out]
  const float *scale = nullptr, *offset = nullptr;  // of the norm, [in]
  const void* add = nullptr;                        // [rows, in], or null; with a norm only
};
struct DenseGradient {
  void* dx;                                     // as x
  float *dkernel, *dbias;                       // as kernel and bias
  float *dscale = nullptr, *doffset = nullptr;  // of the norm
};

// The cotangents of everything but the residual, whose is dy itself; `add` is added to dx. Sums over rows are taken in parts
// that depend on the sizes and the unit alone: the result does not depend on the number of threads.
void dense_gradient(const Dense& layer, const DenseGradientArguments& arguments, const DenseGradient& gradient,
                    const ParallelFor& parallel);
void dense_gradient_on(const Unit& unit, const Dense& layer, const DenseGradientArguments& arguments,
                       const DenseGradient& gradient, const ParallelFor& parallel);

}  // namespace tessera::host
