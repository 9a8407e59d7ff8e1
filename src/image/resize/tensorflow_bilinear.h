#pragma once
// The inner loop of tensorflow_resize.h's bilinear.

#include <cstddef>
#include <cstdint>

namespace tessera::image {

// Between which two pixels along an axis, and how far: a + (b - a) part.
struct LinearTap {
  int lower, upper;
  float part;
};

// A row of `width` output pixels, columns[x] for each, between the rows above and below (`part` of the way), in float32; the
// fraction is cut off. Reads one byte past the last pixel of a row and writes one past the last of `out`.
void bilinear_row(const uint8_t* above, const uint8_t* below, float part, const LinearTap* columns, size_t width, uint8_t* out);

}  // namespace tessera::image
