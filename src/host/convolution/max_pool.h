#pragma once
// Max pooling and its gradient.

#include "host/convolution/windows.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// x -> out [batch, rows, columns, channels], what is outside of the picture does not
// count, a window that sees nothing gives -infinity, and one that sees NaN gives NaN.
void max_pool_f32(const Windows& windows, const float* x, float* out, const ParallelFor& parallel);

// (x, cotangent of `out`) -> that of x: each window's goes to the first of its largest numbers, line by line.
void max_pool_gradient_f32(const Windows& windows, const float* x, const float* dout, float* dx, const ParallelFor& parallel);

}  // namespace tessera::host
