// random_resized_crop: a random part of the image at a random aspect, resized to a square (timm's
// RandomResizedCropAndInterpolation). Up to ten tries: area uniform in scale * (W H), aspect log-uniform in ratio, sides
// rounded half to even, accepted when both fit, offsets uniform. Otherwise the central crop of the nearest allowed aspect.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "data/pp_op.h"

namespace tessera::data {
namespace {

constexpr int kTries = 10;

struct Range {
  double low, high;
};

class RandomResizedCrop final : public PpOp {
 public:
  RandomResizedCrop(int size, Range scale, Range ratio, std::optional<Filter> filter)
      : size_(size), scale_(scale), ratio_(ratio), filter_(filter) {}
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override {
    shape.width = shape.height = size_;
    shape.short_side = size_;
  }
  DecodeResult apply(PpImage& image, Rng& rng) const override {
    const Box box = choose(image.width(), image.height(), rng);
    const Filter filter = filter_ ? *filter_ : rng.uniform() < 0.5 ? Filter::kBilinear : Filter::kBicubic;
    if (DecodeResult failed = image.crop(box)) return failed;
    return image.resize(size_, size_, filter);
  }

 private:
  Box choose(int width, int height, Rng& rng) const {
    const double area = static_cast<double>(width) * height;
    for (int i = 0; i < kTries; ++i) {
      const double target = area * rng.uniform(scale_.low, scale_.high);
      const double aspect = std::exp(rng.uniform(std::log(ratio_.low), std::log(ratio_.high)));
      const int w = std::max(1, round_half_even(std::sqrt(target * aspect)));
      const int h = std::max(1, round_half_even(std::sqrt(target / aspect)));
      if (w > width || h > height) continue;
      const int x = static_cast<int>(rng.below(static_cast<uint64_t>(width - w) + 1));
      const int y = static_cast<int>(rng.below(static_cast<uint64_t>(height - h) + 1));
      return {x, y, w, h};
    }
    return central(width, height);
  }

  Box central(int width, int height) const {
    const double aspect = static_cast<double>(width) / height;
    int w = width, h = height;
    if (aspect < ratio_.low) h = std::clamp(round_half_even(w / ratio_.low), 1, height);
    if (aspect > ratio_.high) w = std::clamp(round_half_even(h * ratio_.high), 1, width);
    return {(width - w) / 2, (height - h) / 2, w, h};
  }

  int size_;
  Range scale_, ratio_;
  std::optional<Filter> filter_;  // nothing: bilinear or bicubic at random
};

Range read_range(CallReader& call, std::string_view name, std::vector<double> fallback, double limit) {
  const std::vector<double> values = call.numbers(name, std::move(fallback));
  if (values.size() != 2 || !(values[0] > 0) || !(values[0] <= values[1]) || values[1] > limit) {
    call.fail(fmt::format("`{}` must be [low, high] with 0 < low <= high{}", name, limit == 1 ? " <= 1" : ""));
  }
  return {values[0], values[1]};
}

}  // namespace

std::unique_ptr<PpOp> make_random_resized_crop(CallReader& call) {
  const int size = read_side(call, "size");
  const Range scale = read_range(call, "scale", {0.08, 1.0}, 1);
  const Range ratio = read_range(call, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1e6);
  const std::string name = call.text("interpolation", "bilinear");
  std::optional<Filter> filter;
  if (name != "random") {
    filter = parse_filter(name);
    std::vector<std::string> names = filter_names();
    names.emplace_back("random");
    if (!filter) call.fail(fmt::format("unknown interpolation `{}`", name), suggest_name(name, names));
  }
  return std::make_unique<RandomResizedCrop>(size, scale, ratio, filter);
}

}  // namespace tessera::data
