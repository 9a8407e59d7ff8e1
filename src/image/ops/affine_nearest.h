#pragma once
// The nearest-neighbour part of affine.h.

#include "image/ops/affine.h"

namespace tessera::image {

void transform_nearest(const Image& from, const AffineMatrix& matrix, const Rgb& fill, Image& to);

}  // namespace tessera::image
