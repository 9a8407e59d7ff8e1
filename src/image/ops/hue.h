#pragma once
// torchvision's adjust_hue on Pillow images.

#include "image/image.h"

namespace tessera::image {

// To Pillow's 8-bit HSV, h + trunc(255 turns) modulo 256, and back. `turns` in -1/2..1/2. Bit for bit.
void shift_hue(Image& image, double turns);

}  // namespace tessera::image
