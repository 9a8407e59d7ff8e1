#include "image/ops/blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "image/ops/pixels.h"

namespace tessera::image {
namespace {

constexpr int kPasses = 3;

// The radius of a box filter that, applied kPasses times, has the variance radius^2; float32, as Pillow computes it.
float box_radius(float radius) {
  const float sigma2 = radius * radius / kPasses;
  const auto length = static_cast<float>(std::sqrt(12.0 * static_cast<double>(sigma2) + 1.0));
  const auto whole = static_cast<float>(std::floor((static_cast<double>(length) - 1.0) / 2.0));
  float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * sigma2);
  part /= 6 * (sigma2 - (whole + 1) * (whole + 1));
  return whole + part;
}

// One mean down the columns; `to` is another image.
void box_down(const Image& from, float radius, std::vector<uint32_t>& sums, Image& to) {
  const int reach = static_cast<int>(radius), last = from.height() - 1;
  const auto whole = static_cast<uint32_t>(static_cast<float>(1 << 24) / (radius * 2 + 1));
  const uint32_t part = ((1u << 24) - static_cast<uint32_t>(reach * 2 + 1) * whole) / 2;
  const auto row_bytes = static_cast<size_t>(from.stride());
  const auto row = [&](int y) { return from.row(std::clamp(y, 0, last)); };
  sums.assign(row_bytes, 0);
  for (int y = -reach - 1; y < reach; ++y) {
    const uint8_t* at = row(y);
    for (size_t i = 0; i < row_bytes; ++i) sums[i] += at[i];
  }
  for (int y = 0; y <= last; ++y) {
    const BoxStep step{row(y - reach - 1), row(y + reach), row(y - reach - 1), row(y + reach + 1), whole, part};
    box_step(step, sums.data(), row_bytes, to.row(y));
  }
}

void transpose(const Image& from, Image& to) {
  constexpr int kBlock = 16;  // so that both images stay in the cache
  for (int y0 = 0; y0 < from.height(); y0 += kBlock) {
    for (int x0 = 0; x0 < from.width(); x0 += kBlock) {
      for (int x = x0; x < std::min(x0 + kBlock, from.width()); ++x) {
        for (int y = y0; y < std::min(y0 + kBlock, from.height()); ++y) {
          std::memcpy(to.row(x) + y * 3, from.row(y) + x * 3, 3);
        }
      }
    }
  }
}

void transpose(Canvas& canvas) {
  const Image& from = canvas.image();
  transpose(from, canvas.next(from.height(), from.width()));
  canvas.swap();
}

// Half of a symmetric kernel, from its centre outwards.
std::vector<float> gaussian_weights(int size, double sigma) {
  const int half = size / 2;
  std::vector<float> weights(static_cast<size_t>(half) + 1);
  double sum = 0;
  for (int k = 0; k <= half; ++k) {
    const double value = std::exp(-0.5 * (k / sigma) * (k / sigma));
    weights[static_cast<size_t>(k)] = static_cast<float>(value);
    sum += k == 0 ? value : 2 * value;
  }
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
  return weights;
}

int mirrored(int i, int count) { return i < 0 ? -i : i >= count ? 2 * (count - 1) - i : i; }

}  // namespace

void box_gaussian_blur(Canvas& canvas, float radius) {
  if (radius == 0) return;
  const float box = box_radius(radius);
  if (box == 0) return;
  for (int axis = 0; axis < 2; ++axis) {
    transpose(canvas);
    for (int pass = 0; pass < kPasses; ++pass) {
      const Image& from = canvas.image();
      box_down(from, box, canvas.columns, canvas.next());
      canvas.swap();
    }
  }
}

void gaussian_blur(Canvas& canvas, int size, double sigma) {
  constexpr size_t kVector = 16;  // floats that may be read and written past a row
  const std::vector<float> weights = gaussian_weights(size, sigma);
  const Image& from = canvas.image();
  const int width = from.width(), height = from.height(), half = size / 2;
  TESSERA_CHECK(size % 2 == 1 && half < width && half < height);
  const auto row_floats = static_cast<size_t>(width) * 3, edge = static_cast<size_t>(half) * 3;
  canvas.sums.assign(row_floats + edge * 2 + kVector, 0.0f);
  float* middle = canvas.sums.data() + edge;
  std::vector<const uint8_t*> above(weights.size()), below(weights.size());
  Image& to = canvas.next();
  for (int y = 0; y < height; ++y) {
    for (int k = 0; k <= half; ++k) {
      above[static_cast<size_t>(k)] = from.row(mirrored(y - k, height));
      below[static_cast<size_t>(k)] = from.row(mirrored(y + k, height));
    }
    filter_rows({above.data(), below.data(), weights.data(), weights.size()}, row_floats, middle);
    for (int x = 1; x <= half; ++x) {
      std::memcpy(middle - x * 3, middle + x * 3, 3 * sizeof(float));
      std::memcpy(middle + (width - 1 + x) * 3, middle + (width - 1 - x) * 3, 3 * sizeof(float));
    }
    filter_row(middle, weights.data(), weights.size(), row_floats, to.row(y));
  }
  canvas.swap();
}

}  // namespace tessera::image
