#include "image/augment/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "image/ops/pixels.h"

namespace tessera::image {
namespace {

void copy_pixels(const Image& from, Image& to) {
  to.reset(from.width(), from.height());
  std::memcpy(to.row(0), from.row(0), from.byte_count());
}

// Makes the canvas what the chain that starts at `begin` makes of the kept picture.
void run_chain(const AugmentPlan& plan, size_t begin, size_t end, const Rgb& fill, Canvas& canvas) {
  copy_pixels(canvas.kept, canvas.next(canvas.kept.width(), canvas.kept.height()));
  canvas.swap();
  for (size_t i = begin; i < end; ++i) apply_pillow(plan.steps[i], fill, canvas);
}

void run_mixed(const AugmentPlan& plan, const Rgb& fill, Canvas& canvas) {
  canvas.sums.assign(canvas.kept.byte_count(), 0.0f);
  float* sums = canvas.sums.data();
  size_t begin = 0;
  for (const AugmentPlan::Chain& chain : plan.chains) {
    run_chain(plan, begin, chain.end, fill, canvas);
    begin = chain.end;
    const uint8_t* pixels = canvas.image().row(0);
    for (size_t i = 0; i < canvas.sums.size(); ++i) sums[i] += chain.weight * static_cast<float>(pixels[i]);
  }
  Image& mixed = canvas.image();
  uint8_t* out = mixed.row(0);
  for (size_t i = 0; i < canvas.sums.size(); ++i) out[i] = static_cast<uint8_t>(std::clamp(sums[i], 0.0f, 255.0f));
  blend(canvas.kept.row(0), out, plan.mix, mixed.byte_count(), out);
}

// The weights of blending one result after the other: the last one's is its own, and so on backwards, in float32.
std::vector<float>& successive_weights(const AugmentPlan& plan, std::vector<float>& weights) {
  weights.assign(plan.chains.size(), 0.0f);
  float rest = 1;
  for (size_t i = weights.size(); i-- > 0;) {
    weights[i] = plan.chains[i].weight * plan.mix / rest;
    rest *= 1 - weights[i];
  }
  return weights;
}

void run_blended(const AugmentPlan& plan, const Rgb& fill, Canvas& canvas) {
  const std::vector<float>& weights = successive_weights(plan, canvas.sums);
  copy_pixels(canvas.kept, canvas.result);
  Image& result = canvas.result;
  size_t begin = 0;
  for (size_t i = 0; i < plan.chains.size(); ++i) {
    run_chain(plan, begin, plan.chains[i].end, fill, canvas);
    begin = plan.chains[i].end;
    blend(result.row(0), canvas.image().row(0), weights[i], result.byte_count(), result.row(0));
  }
  copy_pixels(result, canvas.image());
}

}  // namespace

std::string describe(const AugmentPlan& plan) {
  std::string text;
  size_t chain = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (chain < plan.chains.size() && i == plan.chains[chain].end) ++chain;
    const bool first = i == 0 || (chain > 0 && i == plan.chains[chain - 1].end);
    const bool mixed = !plan.chains.empty();
    if (i > 0) text += first && mixed ? " + " : ", ";
    if (first && mixed) text += fmt::format("{:.3g} of ", plan.chains[chain].weight * plan.mix);
    text += describe(plan.steps[i]);
  }
  return text;
}

void run_pillow(const AugmentPlan& plan, const Rgb& fill, Canvas& canvas) {
  if (plan.chains.empty()) {
    for (const AugmentStep& step : plan.steps) apply_pillow(step, fill, canvas);
    return;
  }
  copy_pixels(canvas.image(), canvas.kept);
  plan.blended ? run_blended(plan, fill, canvas) : run_mixed(plan, fill, canvas);
}

}  // namespace tessera::image
