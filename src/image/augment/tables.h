#pragma once
// Lookup tables of the operations that change each byte by itself, as Pillow computes them.

#include "image/ops/pixels.h"

namespace tessera::image {

// f(0..255) for each channel.
template <class F>
Lut same_for_channels(const F& f) {
  Lut lut;
  for (int i = 0; i < 256; ++i) lut[0][static_cast<size_t>(i)] = static_cast<uint8_t>(f(i));
  lut[1] = lut[2] = lut[0];
  return lut;
}

Lut invert_table();
Lut posterize_table(int bits);                      // the upper bits kept; 0 or fewer: none
Lut solarize_table(int threshold);                  // 255 - i from the threshold on
Lut solarize_add_table(int add);                    // min(255, i + add) below 128
Lut blend_table(uint8_t degenerate, float factor);  // Image.blend of a constant and the picture

// How often each value occurs in each channel.
using Histogram = std::array<std::array<uint32_t, 256>, 3>;
Histogram histogram(const Image& image);

Lut equalize_table(const Histogram& counts);
Lut autocontrast_table(const Histogram& counts);

}  // namespace tessera::image
