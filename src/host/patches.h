#pragma once
// What the window of a convolution sees, as rows for a product (im2col), and back (col2im).

#include <cstdint>

#include "host/parallel_for.h"

namespace tessera::host {

// A square window over pictures [batch, height, width, channels], f32, dense and row-major. Outside of a picture are zeros.
struct Patches {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t window = 1, stride = 1, padding = 0;

  // Places of the window.
  int64_t rows() const { return places(height); }
  int64_t columns() const { return places(width); }
  // Numbers of a patch.
  int64_t elements() const { return window * window * channels; }

 private:
  int64_t places(int64_t size) const { return (size + 2 * padding - window) / stride + 1; }
};

// x -> out [batch, rows, columns, window, window, channels].
void patches_f32(const Patches& patches, const float* x, float* out, const ParallelFor& parallel);

// The cotangent of `out` -> that of x: each number of a picture is the sum over the patches it is in, always in the same order.
void patches_gradient_f32(const Patches& patches, const float* dout, float* dx, const ParallelFor& parallel);

}  // namespace tessera::host
