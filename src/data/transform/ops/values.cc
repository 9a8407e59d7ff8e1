// grayscale, value_range and normalise: what the device does to the uint8 pixels, as an PixelScale.
//   value_range(lo, hi)    0..255, or in_min..in_max, to lo..hi
//   normalise(mean, std)   (x - mean) / std of x in 0..1; after a value_range, of its values. vgg_value_range and
//                          clip_value_range are normalise with known means.
#include "base/error.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

class ValueOp final : public PpOp {
 public:
  // From values in 0..1 or, unless `first`, those of a value op before it.
  ValueOp(std::array<double, 3> scale, std::array<double, 3> offset, bool first)
      : scale_(scale), offset_(offset), first_(first) {}
  Kind kind() const override { return Kind::kValues; }
  void infer(PpShape& shape, const CallReader& call) const override {
    const auto alike = [](const std::array<double, 3>& values) { return values[0] == values[1] && values[1] == values[2]; };
    if (shape.affine.grey && !(alike(scale_) && alike(offset_))) {
      call.fail("it has three values, and there is one channel after grayscale", "normalise(mean=0.449, std=0.226)");
    }
    if (first_ && shape.scales_values) call.fail("it maps 0..255, but a value op stands before it", "keep one of them");
    for (size_t c = 0; c < 3; ++c) {
      const double before_scale = shape.scales_values ? shape.affine.scale[c] : 1.0 / 255;
      const double before_offset = shape.scales_values ? shape.affine.offset[c] : 0.0;
      shape.affine.scale[c] = static_cast<float>(scale_[c] * before_scale);
      shape.affine.offset[c] = static_cast<float>(scale_[c] * before_offset + offset_[c]);
    }
    shape.scales_values = true;
  }
  image::SampleError apply(PpImage&, Rng&) const override { return std::nullopt; }

 private:
  std::array<double, 3> scale_, offset_;
  bool first_;
};

// One channel, and an image of the source has three: so it comes before what scales them.
class Grayscale final : public PpOp {
 public:
  Kind kind() const override { return Kind::kValues; }
  void infer(PpShape& shape, const CallReader& call) const override {
    if (shape.scales_values || shape.affine.grey) call.fail("it must stand before value_range or normalise, and once");
    shape.affine.grey = true;
  }
  image::SampleError apply(PpImage&, Rng&) const override { return std::nullopt; }
};

std::unique_ptr<PpOp> make_grayscale(CallReader&) { return std::make_unique<Grayscale>(); }

std::array<double, 3> read_channels(CallReader& call, std::string_view name, std::vector<double> fallback) {
  const std::vector<double> values = call.numbers(name, std::move(fallback));
  if (values.size() == 1) return {values[0], values[0], values[0]};
  if (values.size() != 3) call.fail(fmt::format("`{}` takes one number or three (red, green, blue)", name));
  return {values[0], values[1], values[2]};
}

std::unique_ptr<PpOp> normaliser(const std::array<double, 3>& mean, const std::array<double, 3>& std) {
  std::array<double, 3> scale{}, offset{};
  for (size_t c = 0; c < 3; ++c) {
    scale[c] = 1 / std[c];
    offset[c] = -mean[c] / std[c];
  }
  return std::make_unique<ValueOp>(scale, offset, false);
}

std::unique_ptr<PpOp> make_value_range(CallReader& call) {
  const double lo = call.number("lo", -1), hi = call.number("hi", 1);
  if (!(lo < hi)) call.fail("`lo` must be less than `hi`");
  const auto in_min = read_channels(call, "in_min", {0}), in_max = read_channels(call, "in_max", {255});
  std::array<double, 3> scale{}, offset{};
  for (size_t c = 0; c < 3; ++c) {
    if (!(in_min[c] < in_max[c])) call.fail("`in_min` must be less than `in_max`");
    const double slope = (hi - lo) / (in_max[c] - in_min[c]);
    scale[c] = slope * 255;
    offset[c] = lo - in_min[c] * slope;
  }
  return std::make_unique<ValueOp>(scale, offset, true);
}

std::unique_ptr<PpOp> make_normalise(CallReader& call) {
  const auto mean = read_channels(call, "mean", {0.485, 0.456, 0.406}), std = read_channels(call, "std", {0.229, 0.224, 0.225});
  for (const double s : std) {
    if (!(s > 0)) call.fail("`std` must be positive");
  }
  return normaliser(mean, std);
}

std::unique_ptr<PpOp> make_vgg_value_range(CallReader&) { return normaliser({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}); }

std::unique_ptr<PpOp> make_clip_value_range(CallReader&) {
  return normaliser({0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711});
}

}  // namespace

const PpOpKind kGrayscale{"grayscale", "grayscale",
                          "one channel, as Pillow's mode L, for a model that then takes one; on the device", make_grayscale};
const PpOpKind kValueRange{"value_range", "value_range(lo=-1, hi=1[, in_min=0][, in_max=255])",
                           "from in_min..in_max, numbers or [red, green, blue]; on the device, as the ops below",
                           make_value_range};
const PpOpKind kNormalise{"normalise", "normalise[(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]",
                          "(x - mean) / std of x in 0..1", make_normalise};
const PpOpKind kNormalize{"normalize", "normalize", "the same as normalise", make_normalise};
const PpOpKind kVggValueRange{"vgg_value_range", "vgg_value_range", "normalise with ImageNet's mean and std",
                              make_vgg_value_range};
const PpOpKind kClipValueRange{"clip_value_range", "clip_value_range", "normalise with CLIP's mean and std",
                               make_clip_value_range};

}  // namespace tessera::data
