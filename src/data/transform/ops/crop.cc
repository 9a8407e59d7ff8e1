// central_crop and random_crop: a rectangle of fixed size out of the image.
#include <algorithm>

#include "base/error.h"
#include "data/transform/pp_op.h"

namespace tessera::data {
namespace {

constexpr int64_t kMaxBorder = 1024;

// Of the pixels to spare, those before a central crop: torchvision rounds half to even, TensorFlow down.
int half(int spare, bool tensorflow) { return tensorflow ? spare / 2 : round_half_even(spare / 2.0); }

class Crop : public PpOp {
 public:
  // `border` pixels are added on every side first.
  explicit Crop(PpSize size, int border = 0, image::Padding padding = {}) : size_(size), border_(border), padding_(padding) {}
  void infer(PpShape& shape, const CallReader& call) const override {
    const auto too_small = [&](const std::optional<int>& side, int crop) { return side && *side + 2 * border_ < crop; };
    if (too_small(shape.width, size_.width) || too_small(shape.height, size_.height)) {
      call.fail(fmt::format("the crop is larger than the {}x{} image that reaches it", *shape.width, *shape.height),
                "resize to at least the size of the crop, or crop less");
    }
    if (too_small(shape.short_side, std::min(size_.width, size_.height))) {
      call.fail(fmt::format("the crop is larger than the shorter side of the images that reach it, {}", *shape.short_side),
                "resize to at least the size of the crop, or crop less");
    }
    shape.width = size_.width;
    shape.height = size_.height;
    shape.short_side = std::min(size_.width, size_.height);
  }
  bool edits() const override { return border_ > 0; }
  image::SampleError apply(PpImage& image, Rng& rng) const override {
    const int across = image.width() + 2 * border_ - size_.width, down = image.height() + 2 * border_ - size_.height;
    if (across < 0 || down < 0) {
      return image::DecodeFailure{fmt::format("{}x{} pixels, smaller than the crop of {}x{}", image.width(), image.height(),
                                              size_.width, size_.height)};
    }
    image::Box box = place(across, down, rng);
    box.x -= border_;
    box.y -= border_;
    return image.window(box, padding_);
  }

 protected:
  // `across` and `down` are the pixels to spare.
  virtual image::Box place(int across, int down, Rng& rng) const = 0;
  PpSize size_;

 private:
  int border_;
  image::Padding padding_;
};

class CentralCrop final : public Crop {
 public:
  CentralCrop(PpSize size, bool tensorflow) : Crop(size), tensorflow_(tensorflow) {}

 protected:
  image::Box place(int across, int down, Rng&) const override {
    return {half(across, tensorflow_), half(down, tensorflow_), size_.width, size_.height};
  }

 private:
  bool tensorflow_;
};

// The largest square.
class CentralSquare final : public PpOp {
 public:
  explicit CentralSquare(bool tensorflow) : tensorflow_(tensorflow) {}
  void infer(PpShape& shape, const CallReader&) const override {
    if (shape.width && shape.height) shape.short_side = std::min(*shape.width, *shape.height);
    shape.width = shape.height = shape.short_side;
  }
  image::SampleError apply(PpImage& image, Rng&) const override {
    const int side = std::min(image.width(), image.height());
    return image.crop({half(image.width() - side, tensorflow_), half(image.height() - side, tensorflow_), side, side});
  }

 private:
  bool tensorflow_;
};

class RandomCrop final : public Crop {
 public:
  using Crop::Crop;
  bool random() const override { return true; }

 protected:
  image::Box place(int across, int down, Rng& rng) const override {
    const int x = static_cast<int>(rng.below(static_cast<uint64_t>(across) + 1));
    const int y = static_cast<int>(rng.below(static_cast<uint64_t>(down) + 1));
    return {x, y, size_.width, size_.height};
  }
};

std::unique_ptr<PpOp> make_central_crop(CallReader& call) {
  const std::string width = call.text("size", ""), height = call.text("h", "");
  const bool tensorflow = read_tensorflow(call);
  if (width.empty() && height.empty()) return std::make_unique<CentralSquare>(tensorflow);
  const int side = to_side(call, "size", width);
  return std::make_unique<CentralCrop>(PpSize{side, height.empty() ? side : to_side(call, "h", height)}, tensorflow);
}

std::unique_ptr<PpOp> make_random_crop(CallReader& call) {
  const PpSize size = read_size(call);
  const int64_t border = call.integer("border", 0);
  if (border < 0 || border > kMaxBorder) call.fail(fmt::format("`border` must be 0 to {} pixels", kMaxBorder));
  return std::make_unique<RandomCrop>(size, static_cast<int>(border), read_padding(call));
}

}  // namespace

const PpOpKind kCentralCrop{"central_crop", "central_crop[(size[, h][, library=pillow])]",
                            "without a size the largest square; an odd pixel is split as torchvision or as TensorFlow does",
                            make_central_crop};
const PpOpKind kRandomCrop{
    "random_crop", "random_crop(size[, h][, border=0][, padding=constant][, fill=0])",
    "anywhere in the image, to which so many pixels are added on every side; padding=reflect mirrors it there",
    make_random_crop};

}  // namespace tessera::data
