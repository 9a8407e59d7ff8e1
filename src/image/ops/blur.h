#pragma once
// Gaussian blurs.

#include "image/ops/canvas.h"

namespace tessera::image {

// Pillow's ImageFilter.GaussianBlur(radius): three box means of fractional radius along each axis, in 24-bit fixed point, with
// the edge repeated (Gwosdek et al., "Theoretical foundations of Gaussian convolution by extended box filtering"). `radius` is
// the standard deviation in pixels; 0 changes nothing.
void box_gaussian_blur(Canvas& canvas, float radius);

// torchvision's GaussianBlur(size): weights exp(-(k / sigma)^2 / 2), normalised, over `size` (odd) pixels along each axis, the
// edge mirrored, rounded half to even. torch sums the products of the two axes in one pass whose order is its own: the results
// differ by at most one level, where a sum lies at the middle between two. Each side must be greater than size / 2.
void gaussian_blur(Canvas& canvas, int size, double sigma);

}  // namespace tessera::image
