// color_jitter, random_grayscale and gaussian_blur: torchvision's ColorJitter, RandomGrayscale and GaussianBlur on Pillow
// images, as timm's presets put them together.
#include <algorithm>

#include "base/error.h"
#include "data/transform/pp_op.h"
#include "image/augment/color_jitter.h"
#include "image/ops/blur.h"
#include "image/ops/pixels.h"

namespace tessera::data {
namespace {

class ColorJitter final : public PpOp {
 public:
  ColorJitter(const image::JitterFactors& factors, double p) : factors_(factors), p_(p) {}
  bool random() const override { return true; }
  bool edits() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (p_ < 1 && rng.uniform() >= p_) return std::nullopt;
    image::AugmentPlan& plan = image.plan();
    image::draw_color_jitter(factors_, rng, plan);
    return image.edit([&] { return image::describe(plan); },
                      [&](image::Canvas& canvas) { image::run_pillow(plan, {}, canvas); });
  }

 private:
  image::JitterFactors factors_;
  double p_;
};

class RandomGrayscale final : public PpOp {
 public:
  explicit RandomGrayscale(double p) : p_(p) {}
  bool random() const override { return true; }
  bool edits() const override { return true; }
  void infer(PpShape&, const CallReader&) const override {}
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (rng.uniform() >= p_) return std::nullopt;
    return image.edit([] { return std::string("grayscale"); }, [](image::Canvas& canvas) { image::to_grey(canvas.image()); });
  }

 private:
  double p_;
};

class GaussianBlur final : public PpOp {
 public:
  GaussianBlur(double p, int size, image::JitterRange sigma) : p_(p), size_(size), sigma_(sigma) {}
  bool random() const override { return true; }
  bool edits() const override { return true; }
  void infer(PpShape& shape, const CallReader& call) const override {
    const int least = size_ / 2 + 1;
    const auto small = [least](const std::optional<int>& side) { return side && *side < least; };
    if (small(shape.width) || small(shape.height) || small(shape.short_side)) {
      call.fail(fmt::format("a blur over {} pixels takes images of at least {} pixels a side", size_, least),
                "blur after the crop, or give a smaller size");
    }
  }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    if (p_ < 1 && rng.uniform() >= p_) return std::nullopt;
    if (std::min(image.width(), image.height()) <= size_ / 2) {
      return image::DecodeFailure{
          fmt::format("{}x{} pixels, too few for a blur over {}", image.width(), image.height(), size_)};
    }
    const double sigma = rng.uniform(sigma_.low, sigma_.high);
    return image.edit([&] { return fmt::format("gaussian_blur {:.3g}", sigma); },
                      [&](image::Canvas& canvas) { image::gaussian_blur(canvas, size_, sigma); });
  }

 private:
  double p_;
  int size_;
  image::JitterRange sigma_;
};

// A number b is the range centre - b .. centre + b, cut at `least`.
std::optional<image::JitterRange> to_range(CallReader& call, std::string_view name, const std::vector<double>& values,
                                           double centre, double least, double most) {
  if (values.size() > 2) call.fail(fmt::format("`{}` takes a number or [low, high]", name));
  image::JitterRange range{values[0], values.back()};
  if (values.size() == 1) {
    if (values[0] < 0) call.fail(fmt::format("`{}` must not be negative", name));
    range = {centre == 0 ? -values[0] : std::max(centre - values[0], least), centre + values[0]};
  }
  if (range.low > range.high || range.low < least || range.high > most) {
    call.fail(fmt::format("`{}` must lie in {}..{} and its range must not be empty", name, least, most));
  }
  if (range.low == centre && range.high == centre) return std::nullopt;
  return range;
}

std::unique_ptr<PpOp> make_color_jitter(CallReader& call) {
  const std::vector<double> brightness = call.numbers("brightness");
  const std::vector<double> contrast = call.numbers("contrast", brightness);
  const std::vector<double> saturation = call.numbers("saturation", contrast);
  constexpr double kMax = 1e6;
  const image::JitterFactors factors{{
      {image::AugmentOp::kBrightness, to_range(call, "brightness", brightness, 1, 0, kMax)},
      {image::AugmentOp::kContrast, to_range(call, "contrast", contrast, 1, 0, kMax)},
      {image::AugmentOp::kColor, to_range(call, "saturation", saturation, 1, 0, kMax)},
      {image::AugmentOp::kHue, to_range(call, "hue", call.numbers("hue", {{0.0}}), 0, -0.5, 0.5)},
  }};
  return std::make_unique<ColorJitter>(factors, read_probability(call, "p", 1.0));
}

std::unique_ptr<PpOp> make_random_grayscale(CallReader& call) {
  return std::make_unique<RandomGrayscale>(read_probability(call, "p", 0.1));
}

std::unique_ptr<PpOp> make_gaussian_blur(CallReader& call) {
  const double p = read_probability(call, "p", 1.0);
  const int size = read_side_or(call, "size", 23);
  if (size % 2 == 0) call.fail("`size` must be odd");
  std::vector<double> sigma = call.numbers("sigma", {{0.1, 2.0}});
  if (sigma.size() == 1) sigma.push_back(sigma[0]);
  if (sigma.size() != 2 || !(sigma[0] > 0) || sigma[0] > sigma[1])
    call.fail("`sigma` must be [low, high] with 0 < low <= high");
  return std::make_unique<GaussianBlur>(p, size, image::JitterRange{sigma[0], sigma[1]});
}

}  // namespace

const PpOpKind kColorJitter{"color_jitter", "color_jitter(brightness[, contrast][, saturation][, hue=0][, p=1])",
                            "torchvision's; one number is for the first three, [low, high] is a range", make_color_jitter};
const PpOpKind kRandomGrayscale{"random_grayscale", "random_grayscale[(p=0.1)]", "grey in all channels", make_random_grayscale};
const PpOpKind kGaussianBlur{"gaussian_blur", "gaussian_blur[(p=1[, size=23][, sigma=[0.1, 2]])]",
                             "torchvision's; sigma uniform", make_gaussian_blur};

}  // namespace tessera::data
