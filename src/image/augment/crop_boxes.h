#pragma once
// Random crop boxes, as functions of the image's size and the random numbers alone.

#include "base/rng.h"
#include "image/image.h"

namespace tessera::image {

struct CropRange {
  double low, high;
};

// timm's RandomResizedCropAndInterpolation. Up to ten tries: area uniform in scale * (W H), aspect log-uniform in ratio (width
// / height), sides rounded half to even, accepted when both fit, offsets uniform. Otherwise the central crop of the nearest
// allowed aspect.
Box draw_resized_crop(int width, int height, CropRange scale, CropRange ratio, Rng& rng);

// big_vision's inception_crop, which is TensorFlow's sample_distorted_bounding_box without a box. Up to 100 tries: aspect r
// uniform in `ratio`; height a uniform integer from round(sqrt(minimum area / r)) to the largest that fits; width =
// round(height r); a side is moved by one where rounding left the allowed area (parts of the whole); the last offset is never
// drawn. Otherwise the whole image.
Box draw_inception_crop(int width, int height, CropRange area, CropRange ratio, Rng& rng);

}  // namespace tessera::image
