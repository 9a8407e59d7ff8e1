// auto_augment and randaug: operations chosen at random for each picture, timm's policies or big_vision's.
#include "base/error.h"
#include "data/augment/big_vision.h"
#include "data/augment/timm.h"
#include "data/pp_op.h"

namespace tessera::data {
namespace {

class Timm final : public PpOp {
 public:
  Timm(TimmAugment augment, Rgb fill) : augment_(std::move(augment)), fill_(fill) {}
  bool random() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  DecodeResult apply(PpImage& image, Rng& rng) const override {
    AugmentPlan& plan = image.plan();
    augment_.draw(image.width(), image.height(), rng, plan);
    if (plan.steps.empty()) return std::nullopt;
    return image.edit([&] { return describe(plan); }, [&](Canvas& canvas) { run_pillow(plan, fill_, canvas); });
  }

 private:
  TimmAugment augment_;
  Rgb fill_;
};

class BigVision final : public PpOp {
 public:
  explicit BigVision(BigVisionRandAugment augment) : augment_(augment) {}
  bool random() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  DecodeResult apply(PpImage& image, Rng& rng) const override {
    AugmentPlan& plan = image.plan();
    augment_.draw(image.width(), image.height(), rng, plan);
    const auto paint = [&](Canvas& canvas) {
      for (const AugmentStep& step : plan.steps) apply_tensorflow(step, BigVisionRandAugment::kFill, canvas);
    };
    return image.edit([&] { return describe(plan); }, paint);
  }

 private:
  BigVisionRandAugment augment_;
};

std::unique_ptr<PpOp> make_timm(const std::string& word, CallReader& call) {
  const std::optional<Filter> filter = read_filter_or_random(call, "random");
  const bool transforms = !filter || *filter == Filter::kNearest || *filter == Filter::kBilinear || *filter == Filter::kBicubic;
  if (!transforms) call.fail("`interpolation` must be random, nearest, bilinear or bicubic: it is for rotations and shears");
  return std::make_unique<Timm>(TimmAugment(word, filter, call), read_rgb(call, "fill", {124, 116, 104}));
}

}  // namespace

std::unique_ptr<PpOp> make_auto_augment(CallReader& call) { return make_timm(call.text("word"), call); }

std::unique_ptr<PpOp> make_randaug(CallReader& call) {
  const std::string first = call.text("num_layers");
  if (first.starts_with("rand")) return make_timm(first, call);
  const std::optional<double> layers = parse_number(first);
  if (!layers || *layers != std::floor(*layers) || *layers < 1 || *layers > 64) {
    call.fail(fmt::format("`{}` is neither big_vision's number of layers nor timm's word", first),
              "write randaug(2, 10) or randaug(rand-m9-mstd0.5-inc1)");
  }
  const double magnitude = call.number("magnitude", 10);
  if (magnitude < 0 || magnitude > 1000) call.fail("`magnitude` must be from 0 to 1000");
  return std::make_unique<BigVision>(BigVisionRandAugment{static_cast<int>(*layers), magnitude});
}

}  // namespace tessera::data
