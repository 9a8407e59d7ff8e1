#pragma once
// Depthwise convolutions: each channel has a kernel of its own.

#include "host/convolution/windows.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// x [batch, height, width, channels], kernel [window, window, channels] -> y [batch, rows, columns, channels], f32; outside of a
// picture are zeros. No result depends on the number of threads.
void depthwise_f32(const Windows& windows, const float* x, const float* kernel, float* y, const ParallelFor& parallel);

// (cotangent of y, kernel) -> that of x, and (x, cotangent of y) -> that of the kernel.
void depthwise_input_gradient_f32(const Windows& windows, const float* dy, const float* kernel, float* dx,
                                  const ParallelFor& parallel);
void depthwise_kernel_gradient_f32(const Windows& windows, const float* x, const float* dy, float* dkernel,
                                   const ParallelFor& parallel);

}  // namespace tessera::host
