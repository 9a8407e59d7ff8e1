#include "image/augment/color_jitter.h"

#include <utility>

namespace tessera::image {

void draw_color_jitter(const JitterFactors& factors, Rng& rng, AugmentPlan& plan) {
  plan.clear();
  JitterFactors order = factors;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  for (const JitterFactor& factor : order) {
    if (factor.range) plan.steps.push_back({factor.op, rng.uniform(factor.range->low, factor.range->high)});
  }
}

}  // namespace tessera::image
