#include "image/augment/big_vision.h"

#include <array>

namespace tessera::image {
namespace {

constexpr std::array kOps = {AugmentOp::kAutoContrast, AugmentOp::kEqualize,   AugmentOp::kInvert, AugmentOp::kRotate,
                             AugmentOp::kPosterize,    AugmentOp::kSolarize,   AugmentOp::kColor,  AugmentOp::kContrast,
                             AugmentOp::kBrightness,   AugmentOp::kSharpness,  AugmentOp::kShearX, AugmentOp::kShearY,
                             AugmentOp::kTranslateX,   AugmentOp::kTranslateY, AugmentOp::kCutout, AugmentOp::kSolarizeAdd};

double signed_draw(double value, Rng& rng) { return rng.below(2) == 0 ? -value : value; }
double whole(double value) { return static_cast<double>(static_cast<int>(value)); }

double argument(AugmentOp op, double level, Rng& rng) {
  switch (op) {
    case AugmentOp::kRotate: return signed_draw(level * 30, rng);
    case AugmentOp::kShearX:
    case AugmentOp::kShearY: return signed_draw(level * 0.3, rng);
    case AugmentOp::kTranslateX:
    case AugmentOp::kTranslateY: return signed_draw(level * 100, rng);
    case AugmentOp::kPosterize: return whole(level * 4);
    case AugmentOp::kSolarize: return whole(level * 256);
    case AugmentOp::kSolarizeAdd: return whole(level * 110);
    case AugmentOp::kCutout: return whole(level * 40);
    case AugmentOp::kColor:
    case AugmentOp::kContrast:
    case AugmentOp::kBrightness:
    case AugmentOp::kSharpness: return level * 1.8 + 0.1;
    default: return 0;
  }
}

}  // namespace

void BigVisionRandAugment::draw(int width, int height, Rng& rng, AugmentPlan& plan) const {
  plan.clear();
  for (int layer = 0; layer < layers; ++layer) {
    AugmentStep step{kOps[rng.below(kOps.size())]};
    step.filter = Filter::kNearest;
    step.value = argument(step.op, magnitude / 10, rng);
    if (step.op == AugmentOp::kCutout) {
      step.y = static_cast<int>(rng.below(static_cast<uint64_t>(height)));
      step.x = static_cast<int>(rng.below(static_cast<uint64_t>(width)));
    }
    plan.steps.push_back(step);
  }
}

}  // namespace tessera::image
