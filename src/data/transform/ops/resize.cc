// resize: to an exact size, whatever the aspect. resize_small, resize_long: one side to `size`, the other in proportion.
// resize_keep_ratio: timm's ResizeKeepRatio.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class Resize final : public PpOp {
 public:
  Resize(PpSize size, image::ResizeMethod method) : size_(size), method_(method) {}
  void infer(PpShape& shape, const CallReader&) const override { set_size(shape, size_); }
  image::SampleError apply(PpImage& image, Rng&) const override { return image.resize(size_.width, size_.height, method_); }

 private:
  PpSize size_;
  image::ResizeMethod method_;
};

class ResizeSide final : public PpOp {
 public:
  enum class Side { kShorter, kLonger };
  ResizeSide(int size, Side side, image::ResizeMethod method) : size_(size), side_(side), method_(method) {}
  void infer(PpShape& shape, const CallReader&) const override {
    if (shape.width && shape.height) {
      set_size(shape, target(*shape.width, *shape.height));
    } else {
      shape.short_side = side_ == Side::kShorter ? std::optional(size_) : std::nullopt;
    }
  }
  image::SampleError apply(PpImage& image, Rng&) const override {
    const PpSize to = target(image.width(), image.height());
    return image.resize(to.width, to.height, method_);
  }

 private:
  PpSize target(int width, int height) const {
    return std::holds_alternative<image::Filter>(method_) ? pillow_target(width, height) : tensorflow_target(width, height);
  }
  // torchvision's rule, and so timm's: the other side is rounded down.
  PpSize pillow_target(int width, int height) const {
    const bool of_width = side_ == Side::kShorter ? width <= height : width >= height;
    const int64_t given = of_width ? width : height, follows = of_width ? height : width;
    const int other = static_cast<int>(std::clamp<int64_t>(size_ * follows / given, 1, std::numeric_limits<int>::max()));
    return of_width ? PpSize{size_, other} : PpSize{other, size_};
  }
  // big_vision's: both sides times a factor in float32, rounded half to even.
  PpSize tensorflow_target(int width, int height) const {
    const int given = side_ == Side::kShorter ? std::min(width, height) : std::max(width, height);
    const float factor = static_cast<float>(size_) / static_cast<float>(given);
    const auto scaled = [factor](int side) { return std::max(1, round_half_even(static_cast<float>(side) * factor)); };
    return {scaled(width), scaled(height)};
  }

  int size_;
  Side side_;
  image::ResizeMethod method_;
};

// Divided by the smaller (longest = 0: covers the size) or the larger (1: fits into it) of the two ratios of image and size, or
// what lies between. A random scale is a part of the area, so that 0.8 enlarges; a random aspect is log-uniform.
class ResizeKeepRatio final : public PpOp {
 public:
  struct Chance {
    double p, low, high;
  };
  ResizeKeepRatio(PpSize size, double longest, Chance scale, Chance aspect, std::optional<image::Filter> filter)
      : size_(size), longest_(longest), scale_(scale), aspect_(aspect), filter_(filter) {}
  bool random() const override { return scale_.p > 0 || aspect_.p > 0 || !filter_; }
  void infer(PpShape& shape, const CallReader&) const override {
    shape.short_side.reset();
    if (shape.width && shape.height && !random()) {
      set_size(shape, target(*shape.width, *shape.height, 1, 1));
    } else {
      shape.width.reset();
      shape.height.reset();
    }
  }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    double down = 1, across = 1;
    if (rng.uniform() < scale_.p) down = across = 1 / std::sqrt(rng.uniform(scale_.low, scale_.high));
    if (rng.uniform() < aspect_.p) {
      const double aspect = std::sqrt(std::exp(rng.uniform(std::log(aspect_.low), std::log(aspect_.high))));
      down /= aspect;
      across *= aspect;
    }
    const PpSize to = target(image.width(), image.height(), across, down);
    return image.resize(to.width, to.height, choose_filter(filter_, rng));
  }

 private:
  PpSize target(int width, int height, double across, double down) const {
    const double of_height = static_cast<double>(height) / size_.height, of_width = static_cast<double>(width) / size_.width;
    const double ratio = std::max(of_height, of_width) * longest_ + std::min(of_height, of_width) * (1.0 - longest_);
    const auto scaled = [ratio](int side, double factor) { return std::max(1, round_half_even(side * factor / ratio)); };
    return {scaled(width, across), scaled(height, down)};
  }

  PpSize size_;
  double longest_;
  Chance scale_, aspect_;
  std::optional<image::Filter> filter_;
};

ResizeKeepRatio::Chance read_chance(CallReader& call, const std::string& name, std::vector<double> fallback) {
  const double p = read_probability(call, name + "_prob", 0.0);
  const std::vector<double> range = call.numbers(name, std::move(fallback));
  constexpr double kLeast = 0.01, kMax = 100;  // further out, sides of pixels grow past any memory
  if (range.size() != 2 || !(range[0] >= kLeast) || !(range[0] <= range[1]) || range[1] > kMax) {
    call.fail(fmt::format("`{}` must be [low, high] with {} <= low <= high <= {}", name, kLeast, kMax));
  }
  return {p, range[0], range[1]};
}

std::unique_ptr<PpOp> make_resize(CallReader& call) {
  const int width = read_side(call, "size");
  const std::string second = call.text("h", "");
  // resize(224, bicubic): a word in the second place is the interpolation.
  if (const std::optional<image::Filter> filter = image::parse_filter(second)) {
    if (call.has("interpolation")) call.fail("the interpolation is given twice");
    return std::make_unique<Resize>(PpSize{width, width}, *filter);
  }
  const int height = second.empty() ? width : to_side(call, "h", second);
  return std::make_unique<Resize>(PpSize{width, height}, read_method(call, image::TensorflowFilter::kBilinear));
}

std::unique_ptr<PpOp> make_resize_small(CallReader& call) {
  const int size = read_side(call, "size");
  return std::make_unique<ResizeSide>(size, ResizeSide::Side::kShorter, read_method(call, image::TensorflowFilter::kArea));
}

std::unique_ptr<PpOp> make_resize_long(CallReader& call) {
  const int size = read_side(call, "size");
  return std::make_unique<ResizeSide>(size, ResizeSide::Side::kLonger, read_method(call, image::TensorflowFilter::kArea, true));
}

std::unique_ptr<PpOp> make_resize_keep_ratio(CallReader& call) {
  const PpSize size = read_size(call);
  const double longest = call.number("longest", 0.0);
  if (longest < 0 || longest > 1) call.fail("`longest` must be from 0 (cover the size) to 1 (fit into it)");
  const ResizeKeepRatio::Chance scale = read_chance(call, "scale", {0.8, 1.0});
  const ResizeKeepRatio::Chance aspect = read_chance(call, "aspect", {0.9, 1 / 0.9});
  return std::make_unique<ResizeKeepRatio>(size, longest, scale, aspect, read_filter_or_random(call, "bilinear"));
}

}  // namespace

const PpOpKind kResize{"resize", "resize(size[, h]METHOD)", "to an exact size, whatever the aspect", make_resize};
const PpOpKind kResizeSmall{"resize_small", "resize_small(sizeMETHOD)",
                            "the shorter side to size; TensorFlow's interpolation is area", make_resize_small};
const PpOpKind kResizeLong{"resize_long", "resize_long(sizeMETHOD)",
                           "the longer side to size; TensorFlow's interpolation is area, and it antialiases", make_resize_long};
const PpOpKind kResizeKeepRatio{
    "resize_keep_ratio",
    "resize_keep_ratio(size[, h][, longest=0][, scale_prob=0][, scale=[0.8, 1]][, aspect_prob=0][, aspect=[0.9, 10/9]]"
    "[, interpolation=bilinear])",
    "timm's: to cover the size (longest=0) or to fit into it (1); at random enlarged by 1/scale in area, and stretched",
    make_resize_keep_ratio};

}  // namespace tessera::data
