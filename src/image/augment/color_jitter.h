#pragma once
// What torchvision's ColorJitter draws.

#include <array>
#include <optional>

#include "base/rng.h"
#include "image/augment/plan.h"

namespace tessera::image {

struct JitterRange {
  double low, high;
};
struct JitterFactor {
  AugmentOp op;
  std::optional<JitterRange> range;  // nothing: not applied
};
using JitterFactors = std::array<JitterFactor, 4>;

// The operations in random order, each with a factor uniform in its range.
void draw_color_jitter(const JitterFactors& factors, Rng& rng, AugmentPlan& plan);

}  // namespace tessera::image
