// random_resized_crop: a random part of the image at a random aspect, resized to a square.
#include "base/error.h"
#include "data/transform/pp_op.h"
#include "image/augment/crop_boxes.h"

namespace tessera::data {
namespace {

class RandomResizedCrop final : public PpOp {
 public:
  RandomResizedCrop(int size, image::CropRange scale, image::CropRange ratio, std::optional<image::Filter> filter)
      : size_(size), scale_(scale), ratio_(ratio), filter_(filter) {}
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override {
    shape.width = shape.height = size_;
    shape.short_side = size_;
  }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    const image::Box box = image::draw_resized_crop(image.width(), image.height(), scale_, ratio_, rng);
    const image::Filter filter = choose_filter(filter_, rng);
    if (image::SampleError failed = image.crop(box)) return failed;
    return image.resize(size_, size_, filter);
  }

 private:
  int size_;
  image::CropRange scale_, ratio_;
  std::optional<image::Filter> filter_;  // nothing: bilinear or bicubic at random
};

image::CropRange read_range(CallReader& call, std::string_view name, std::vector<double> fallback, double limit) {
  const std::vector<double> values = call.numbers(name, std::move(fallback));
  if (values.size() != 2 || !(values[0] > 0) || !(values[0] <= values[1]) || values[1] > limit) {
    call.fail(fmt::format("`{}` must be [low, high] with 0 < low <= high{}", name, limit == 1 ? " <= 1" : ""));
  }
  return {values[0], values[1]};
}

std::unique_ptr<PpOp> make_random_resized_crop(CallReader& call) {
  const int size = read_side(call, "size");
  const image::CropRange scale = read_range(call, "scale", {0.08, 1.0}, 1);
  const image::CropRange ratio = read_range(call, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1e6);
  return std::make_unique<RandomResizedCrop>(size, scale, ratio, read_filter_or_random(call, "bilinear"));
}

}  // namespace

const PpOpKind kRandomResizedCrop{"random_resized_crop",
                                  "random_resized_crop(size[, scale=[0.08, 1]][, ratio=[3/4, 4/3]][, interpolation=bilinear])",
                                  "timm's; interpolation=random is bilinear or bicubic", make_random_resized_crop};

}  // namespace tessera::data
