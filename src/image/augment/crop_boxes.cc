#include "image/augment/crop_boxes.h"

#include <algorithm>
#include <cmath>

namespace tessera::image {
namespace {

constexpr int kResizedTries = 10, kInceptionTries = 100;

int round_half_even(double x) { return static_cast<int>(std::nearbyint(x)); }

Box central(int width, int height, CropRange ratio) {
  const double aspect = static_cast<double>(width) / height;
  int w = width, h = height;
  if (aspect < ratio.low) h = std::clamp(round_half_even(w / ratio.low), 1, height);
  if (aspect > ratio.high) w = std::clamp(round_half_even(h * ratio.high), 1, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

bool try_inception(int width, int height, CropRange part, CropRange ratio, Rng& rng, Box& box) {
  const double aspect = rng.uniform(ratio.low, ratio.high);
  const double smallest = part.low * width * height, largest = part.high * width * height;
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

}  // namespace

Box draw_resized_crop(int width, int height, CropRange scale, CropRange ratio, Rng& rng) {
  const double area = static_cast<double>(width) * height;
  for (int i = 0; i < kResizedTries; ++i) {
    const double target = area * rng.uniform(scale.low, scale.high);
    const double aspect = std::exp(rng.uniform(std::log(ratio.low), std::log(ratio.high)));
    const int w = std::max(1, round_half_even(std::sqrt(target * aspect)));
    const int h = std::max(1, round_half_even(std::sqrt(target / aspect)));
    if (w > width || h > height) continue;
    const int x = static_cast<int>(rng.below(static_cast<uint64_t>(width - w) + 1));
    const int y = static_cast<int>(rng.below(static_cast<uint64_t>(height - h) + 1));
    return {x, y, w, h};
  }
  return central(width, height, ratio);
}

Box draw_inception_crop(int width, int height, CropRange area, CropRange ratio, Rng& rng) {
  Box box{0, 0, width, height};
  for (int i = 0; i < kInceptionTries; ++i) {
    if (try_inception(width, height, area, ratio, rng, box)) break;
  }
  return box;
}

}  // namespace tessera::image
