#pragma once
// The nearest-neighbour part of affine.h.

#include "data/augment/affine.h"

namespace tessera::data {

void transform_nearest(const Image& from, const AffineMatrix& matrix, const Rgb& fill, Image& to);

}  // namespace tessera::data
