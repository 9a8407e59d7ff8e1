#pragma once
// big_vision's RandAugment (pp/archive/autoaugment.py: distort_image_with_randaugment).

#include "base/rng.h"
#include "image/augment/plan.h"

namespace tessera::image {

// `layers` operations, each uniformly one of sixteen and always applied, all at the same magnitude m: rotations by 3 m degrees,
// shears by 0.03 m, shifts by 10 m pixels, each to either side; factors 0.1 + 0.18 m; m / 10 of 4 bits, of the threshold 256,
// of the addition 110, and of a cutout that reaches 40 pixels from a uniform centre. Nothing is clamped, so at m = 10 the
// threshold is 256, which as a byte is 0: everything is inverted. For apply_tensorflow().
struct BigVisionRandAugment {
  static constexpr Rgb kFill{128, 128, 128};
  int layers = 2;
  double magnitude = 10;

  void draw(int width, int height, Rng& rng, AugmentPlan& plan) const;
};

}  // namespace tessera::image
