#pragma once
// A rectangle that may reach past the picture.

#include "image/ops/canvas.h"

namespace tessera::image {

struct Padding {
  bool reflect = false;  // mirrored at the edge pixels, which are not repeated, as often as it takes; else `fill`
  Rgb fill{};
};

// Makes the canvas what `box` of it shows; x and y may be negative.
void cut_window(Canvas& canvas, const Box& box, const Padding& padding);

}  // namespace tessera::image
