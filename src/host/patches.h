#pragma once
// What the window of a convolution sees, as rows for a product (im2col), and back (col2im).

#include <cstdint>
#include <optional>
#include <span>

#include "host/parallel_for.h"
#include "ir/composites.h"

namespace tessera::host {

// A square window over pictures [batch, height, width, channels], f32, dense and row-major. Outside of a picture are zeros.
struct Patches {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t window = 1, stride = 1, padding = 0;

  // Places of the window.
  int64_t rows() const { return geometry().places(height); }
  int64_t columns() const { return geometry().places(width); }
  // Numbers of a patch.
  int64_t elements() const { return window * window * channels; }

 private:
  ir::Window geometry() const { return {window, stride, padding}; }
};

// Those of a call: pictures of these dimensions, and of each place of the window `numbers` in `out`, or as many as there are
// channels. Nothing where the two do not go together.
std::optional<Patches> patches_of(std::span<const int64_t> pictures, std::span<const int64_t> out,
                                  const std::optional<ir::Window>& window, int64_t (Patches::*numbers)() const = nullptr);

// x -> out [batch, rows, columns, window, window, channels].
void patches_f32(const Patches& patches, const float* x, float* out, const ParallelFor& parallel);

// The cotangent of `out` -> that of x: each number of a picture is the sum over the patches it is in, always in the same order.
void patches_gradient_f32(const Patches& patches, const float* dout, float* dx, const ParallelFor& parallel);

}  // namespace tessera::host
