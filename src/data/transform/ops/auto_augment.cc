// auto_augment and randaug: operations chosen at random for each picture, timm's policies or big_vision's.
#include "base/error.h"
#include "data/transform/pp_op.h"
#include "image/augment/big_vision.h"
#include "image/augment/timm.h"

namespace tessera::data {
namespace {

class Timm final : public PpOp {
 public:
  Timm(image::TimmAugment augment, image::Rgb fill) : augment_(std::move(augment)), fill_(fill) {}
  bool random() const override { return true; }
  bool edits() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    image::AugmentPlan& plan = image.plan();
    augment_.draw(image.width(), image.height(), rng, plan);
    if (plan.steps.empty()) return std::nullopt;
    return image.edit([&] { return image::describe(plan); },
                      [&](image::Canvas& canvas) { image::run_pillow(plan, fill_, canvas); });
  }

 private:
  image::TimmAugment augment_;
  image::Rgb fill_;
};

class BigVision final : public PpOp {
 public:
  explicit BigVision(image::BigVisionRandAugment augment) : augment_(augment) {}
  bool random() const override { return true; }
  bool edits() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    image::AugmentPlan& plan = image.plan();
    augment_.draw(image.width(), image.height(), rng, plan);
    const auto paint = [&](image::Canvas& canvas) {
      for (const image::AugmentStep& step : plan.steps)
        image::apply_tensorflow(step, image::BigVisionRandAugment::kFill, canvas);
    };
    return image.edit([&] { return image::describe(plan); }, paint);
  }

 private:
  image::BigVisionRandAugment augment_;
};

std::unique_ptr<PpOp> make_timm(const std::string& word, CallReader& call) {
  const std::optional<image::Filter> filter = read_filter_or_random(call, "random");
  const bool transforms = !filter || *filter == image::Filter::kNearest || *filter == image::Filter::kBilinear ||
                          *filter == image::Filter::kBicubic;
  if (!transforms) call.fail("`interpolation` must be random, nearest, bilinear or bicubic: it is for rotations and shears");
  return std::make_unique<Timm>(image::TimmAugment(word, filter, call), read_rgb(call, "fill", {124, 116, 104}));
}

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
  return std::make_unique<BigVision>(image::BigVisionRandAugment{static_cast<int>(*layers), magnitude});
}

}  // namespace

const PpOpKind kAutoAugment{"auto_augment", "auto_augment(WORD[, interpolation=random][, fill=[124, 116, 104]])",
                            "timm's --aa: rand-m9-mstd0.5-inc1, augmix-m3-w3, original, originalr, v0, v0r, 3a",
                            make_auto_augment};
const PpOpKind kRandaug{"randaug", "randaug(num_layers[, magnitude=10]) or randaug(rand-m9-mstd0.5-inc1)",
                        "big_vision's RandAugment, or timm's", make_randaug};

}  // namespace tessera::data
