#pragma once
// All that was drawn to augment one picture.

#include "image/augment/step.h"

namespace tessera::image {

struct AugmentPlan {
  AugmentSteps steps;  // one after the other; of a mix, those of its first chain, then of its second, …

  // AugMix: each chain starts from the picture, and the results are mixed. Empty for a plain sequence.
  struct Chain {
    size_t end;    // of its steps
    float weight;  // of its result; they sum to 1
  };
  std::vector<Chain> chains;
  float mix = 0;         // weight of the mixed chains against the picture
  bool blended = false;  // blended in one by one instead of summed: see run()

  void clear() {
    steps.clear();
    chains.clear();
    mix = 0;
    blended = false;
  }
};
std::string describe(const AugmentPlan& plan);

// Carries a plan out with Pillow's operations. Of a mix, bit for bit as timm's AugMixAugment: the sum of weight * result in
// float32, cut to whole levels and blended with the picture (Image.blend); `blended` blends each result into the one before it,
// with weights that amount to the same but for the rounding.
void run_pillow(const AugmentPlan& plan, const Rgb& fill, Canvas& canvas);

}  // namespace tessera::image
