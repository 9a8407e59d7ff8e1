// inception_crop: big_vision's, which is TensorFlow's sample_distorted_bounding_box without a box, then a resize to a square.
// Up to 100 tries: aspect r uniform in 0.75..1.33; height a uniform integer from round(sqrt(minimum area / r)) to the largest
// that fits; width = round(height r); a side is moved by one where rounding left the allowed area; the last offset is never
// drawn. Otherwise the whole image.
#include <algorithm>

#include "base/error.h"
#include "data/pp_op.h"

namespace tessera::data {
namespace {

constexpr int kTries = 100;
constexpr double kMinAspect = 0.75, kMaxAspect = 1.33;

class InceptionCrop final : public PpOp {
 public:
  InceptionCrop(int size, double area_min, double area_max, Filter filter)
      : size_(size), area_min_(area_min), area_max_(area_max), filter_(filter) {}
  bool random() const override { return true; }
  void infer(PpShape& shape, const CallReader&) const override {
    shape.width = shape.height = size_;
    shape.short_side = size_;
  }
  DecodeResult apply(PpImage& image, Rng& rng) const override {
    Box box{0, 0, image.width(), image.height()};
    for (int i = 0; i < kTries; ++i) {
      if (try_box(image.width(), image.height(), rng, box)) break;
    }
    if (DecodeResult failed = image.crop(box)) return failed;
    return image.resize(size_, size_, filter_);
  }

 private:
  bool try_box(int width, int height, Rng& rng, Box& box) const {
    const double aspect = rng.uniform(kMinAspect, kMaxAspect);
    const double smallest = area_min_ * width * height, largest = area_max_ * width * height;
    const auto width_for = [&](int h) { return round_half_even(h * aspect); };
    int h = round_half_even(std::sqrt(smallest / aspect));
    int limit = round_half_even(std::sqrt(largest / aspect));
    if (width_for(limit) > width) {
      limit = static_cast<int>((width + 0.5 - 1e-7) / aspect);
      if (width_for(limit) > width) --limit;
    }
    limit = std::min(limit, height);
    h = std::min(h, limit);
    if (h < limit) h += static_cast<int>(rng.below(static_cast<uint64_t>(limit - h) + 1));
    const auto area = [&] { return static_cast<double>(width_for(h)) * h; };
    if (area() < smallest) ++h;
    if (area() > largest) --h;
    const int w = width_for(h);
    if (w < 1 || h < 1 || w > width || h > height || area() < smallest || area() > largest) return false;
    const int y = h < height ? static_cast<int>(rng.below(static_cast<uint64_t>(height - h))) : 0;
    const int x = w < width ? static_cast<int>(rng.below(static_cast<uint64_t>(width - w))) : 0;
    box = {x, y, w, h};
    return true;
  }

  int size_;
  double area_min_, area_max_;  // parts of the whole
  Filter filter_;
};

}  // namespace

std::unique_ptr<PpOp> make_inception_crop(CallReader& call) {
  const int size = read_side(call, "size");
  const double low = call.number("area_min", 5), high = call.number("area_max", 100);
  if (!(low > 0 && low <= high && high <= 100)) call.fail("areas are percentages: 0 < area_min <= area_max <= 100");
  return std::make_unique<InceptionCrop>(size, low / 100, high / 100, read_filter(call));
}

}  // namespace tessera::data
