// resize: to an exact size, whatever the aspect. resize_small: the shorter side to `size`, the longer one in proportion.
#include <algorithm>

#include "data/pp_op.h"

namespace tessera::data {
namespace {

class Resize final : public PpOp {
 public:
  Resize(PpSize size, Filter filter) : size_(size), filter_(filter) {}
  void infer(PpShape& shape, const CallReader&) const override {
    shape.width = size_.width;
    shape.height = size_.height;
    shape.short_side = std::min(size_.width, size_.height);
  }
  DecodeResult apply(PpImage& image, Rng&) const override { return image.resize(size_.width, size_.height, filter_); }

 private:
  PpSize size_;
  Filter filter_;
};

class ResizeSmall final : public PpOp {
 public:
  ResizeSmall(int size, Filter filter) : size_(size), filter_(filter) {}
  void infer(PpShape& shape, const CallReader&) const override {
    if (shape.width && shape.height) {
      const PpSize to = target(*shape.width, *shape.height);
      shape.width = to.width;
      shape.height = to.height;
    }
    shape.short_side = size_;
  }
  DecodeResult apply(PpImage& image, Rng&) const override {
    const PpSize to = target(image.width(), image.height());
    return image.resize(to.width, to.height, filter_);
  }

 private:
  // torchvision's rule, and so timm's: the longer side is rounded down.
  PpSize target(int width, int height) const {
    const int64_t shorter = std::min(width, height), longer = std::max(width, height);
    const int other = static_cast<int>(size_ * longer / shorter);
    return width <= height ? PpSize{size_, other} : PpSize{other, size_};
  }

  int size_;
  Filter filter_;
};

}  // namespace

std::unique_ptr<PpOp> make_resize(CallReader& call) {
  const int width = read_side(call, "size");
  const std::string second = call.text("h", "");
  // resize(224, bicubic): a word in the second place is the interpolation.
  if (const std::optional<Filter> filter = parse_filter(second)) {
    if (call.has("interpolation")) call.fail("the interpolation is given twice");
    return std::make_unique<Resize>(PpSize{width, width}, *filter);
  }
  const int height = second.empty() ? width : to_side(call, "h", second);
  return std::make_unique<Resize>(PpSize{width, height}, read_filter(call));
}

std::unique_ptr<PpOp> make_resize_small(CallReader& call) {
  const int size = read_side(call, "size");
  return std::make_unique<ResizeSmall>(size, read_filter(call));
}

}  // namespace tessera::data
