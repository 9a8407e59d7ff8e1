#pragma once
// Convolutions of one group as matrix products (im2col) on this processor's fastest unit (unit.h). Patches are gathered block by
// block, in a core's cache. Sums are f32, and do not depend on the number of threads.

#include <optional>

#include "base/shape.h"
#include "host/convolution/windows.h"
#include "host/product.h"
#include "host/units/parallel_for.h"
#include "host/units/rows.h"
#include "ir/composites.h"
#include "ir/graph.h"

namespace tessera::host {

// Over x [batch, height, width, channels] by a kernel [window, window, channels, features]; outside of a picture are zeros.
struct Convolution {
  Windows windows;  // over x
  int64_t features = 0;
  DType dtype = DType::kF32;  // of all arrays but a kernel's gradient: f32 or bf16
};

// The gradient of x is a convolution of dy by the flipped kernel. These are its windows; none where the stride is not 1.
std::optional<Windows> windows_back(const Convolution& c);

// A convolution's kernel, or what pack_convolution() made of it.
struct Weights {
  const void* data;
  bool packed = false;

  // NOLINTNEXTLINE(google-explicit-constructor): a kernel in memory is one
  Weights(const void* numbers, bool packed_before = false) : data(numbers), packed(packed_before) {}
};

// A kernel packed once for many calls of `convolution`: the same for every number and size of pictures. `to` is aligned to
// Scratch::kAlign bytes.
int64_t packed_convolution_bytes(const Convolution& c);
void pack_convolution(const Convolution& c, const void* kernel, uint8_t* to, const ParallelFor& parallel);

// What is done to y before it is rounded: normalize_columns (rows.h), with something added.
struct NormAfter {
  ColumnNorm norm;       // of the features
  const void* residual;  // [batch, rows, columns, features] of y's dtype, or null
};

// y [batch, rows, columns, features]; `norm` may be null.
void convolution(const Convolution& c, const void* x, Weights kernel, void* y, const ParallelFor& parallel,
                 const NormAfter* norm = nullptr);

// (cotangent of y, kernel) -> that of x.
void convolution_input_gradient(const Convolution& c, const void* dy, const void* kernel, void* dx,
                                const ParallelFor& parallel);

// (x, cotangent of y) -> that of the kernel.
void convolution_kernel_gradient(const Convolution& c, const void* x, const void* dy, Destination dkernel,
                                 const ParallelFor& parallel);

// In a graph of calls: where the first operand of a `batch_norm_inference` (ir/composites.h) is the result of a convolution's call,
// the call that does both. In every model the norm alone reads that result; the first call is then left out of the program.
std::optional<ir::Value> convolution_with_norm(const ir::BatchNorm& norm, const ir::Values& operands);

}  // namespace tessera::host
