#pragma once
// Pillow's Image.transform(size, AFFINE, matrix, resample, fillcolor=…) onto a picture of the same size, bit for bit.
//
// The pixel (x, y) is taken from x' = a (x + 1/2) + b (y + 1/2) + c, y' = d (x + 1/2) + e (y + 1/2) + f in float64 for the
// matrix {a, b, c, d, e, f}; outside the picture it is `fill`. Bilinear and bicubic (a = -1) interpolate in float64 round (x' -
// 1/2, y' - 1/2), repeat the edge, and cut the fraction off. Nearest steps along rows in 16.16 fixed point, or by repeated
// addition when the matrix only scales and shifts.

#include <array>

#include "image/ops/canvas.h"
#include "image/resize/resize.h"

namespace tessera::image {

using AffineMatrix = std::array<double, 6>;

// `filter` is kNearest, kBilinear or kBicubic; `to` has the size of `from` and is another image.
void transform_affine(const Image& from, const AffineMatrix& matrix, Filter filter, const Rgb& fill, Image& to);

// Image.rotate(degrees, resample, fillcolor=…): counter-clockwise round the centre. Whole quarter turns (of a square, or by
// 180 degrees) only move pixels.
void rotate(Canvas& canvas, double degrees, Filter filter, const Rgb& fill);

}  // namespace tessera::image
