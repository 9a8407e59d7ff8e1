// apply_tensorflow of step.h. Where a whole image goes through TensorFlow's convolution or matrix product, whose order of
// additions is its own, a level may differ by one where a sum lies at a whole number.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "image/augment/step.h"
#include "image/augment/tables.h"
#include "image/ops/pixels.h"

namespace tessera::image {
namespace {

// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5] in float32, rounded to the nearest pixel, half away from zero
// (ImageProjectiveTransformV3).
using Projection = std::array<float, 6>;

// The pixel nearest to a coordinate, half away from zero; -1 before the first.
int nearest(float at) { return at > -0.5f ? static_cast<int>(static_cast<double>(at) + 0.5) : -1; }

void project(Canvas& canvas, const Projection& m, const Rgb& fill) {
  const Image& from = canvas.image();
  Image& to = canvas.next();
  for (int y = 0; y < to.height(); ++y) {
    const auto fy = static_cast<float>(y);
    uint8_t* out = to.row(y);
    for (int x = 0; x < to.width(); ++x, out += 3) {
      const auto fx = static_cast<float>(x);
      const int column = nearest(m[0] * fx + m[1] * fy + m[2]), line = nearest(m[3] * fx + m[4] * fy + m[5]);
      const bool inside = column >= 0 && column < from.width() && line >= 0 && line < from.height();
      std::memcpy(out, inside ? from.row(line) + column * 3 : fill.data(), 3);
    }
  }
  canvas.swap();
}

// TensorFlow Addons' rotation round the middle of the outer pixels' centres.
Projection rotation(float degrees, int width, int height) {
  const float angle = degrees * static_cast<float>(std::numbers::pi / 180);
  const float cos = std::cos(angle), sin = std::sin(angle);
  const auto w = static_cast<float>(width - 1), h = static_cast<float>(height - 1);
  return {cos, -sin, (w - (cos * w - sin * h)) / 2.0f, sin, cos, (h - (sin * w + cos * h)) / 2.0f};
}

// tf.image.rgb_to_grayscale: of values in 0..1, and back by 255.5.
uint8_t grey_of(const uint8_t* p) {
  constexpr float kUnit = 1.0f / 255;
  const float r = static_cast<float>(p[0]) * kUnit, g = static_cast<float>(p[1]) * kUnit, b = static_cast<float>(p[2]) * kUnit;
  return static_cast<uint8_t>((r * 0.2989f + g * 0.5870f + b * 0.1140f) * 255.5f);
}

void saturate(Canvas& canvas, float factor) {
  Image& image = canvas.image();
  Image& grey = canvas.next();
  for (size_t i = 0; i < image.byte_count(); i += 3) std::memset(grey.row(0) + i, grey_of(image.row(0) + i), 3);
  blend(grey.row(0), image.row(0), factor, image.byte_count(), image.row(0));
}

// A byte's convolution with 1 1 1, 1 5 1, 1 1 1 over 13, tap after tap with one rounding to float32 for each product and
// addition, as TensorFlow's fused multiply-add has it. In float64 products and sums are exact.
float convolved(const Image& image, int y, ptrdiff_t i) {
  float sum = 0;
  for (int down = -1; down <= 1; ++down) {
    const uint8_t* at = image.row(y + down) + i;
    for (int across = -1; across <= 1; ++across) {
      const double weight = down == 0 && across == 0 ? 5.0f / 13 : 1.0f / 13;
      sum = static_cast<float>(static_cast<double>(sum) + at[across * 3] * weight);
    }
  }
  return sum;
}

// Row y without its border pixels, cut to whole levels. Only where the weights' sum divides by 13 do roundings decide the
// level.
void smooth_trimmed(const Image& image, int y, uint8_t* out) {
  const uint8_t *above = image.row(y - 1), *row = image.row(y), *below = image.row(y + 1);
  for (ptrdiff_t i = 3; i < image.stride() - 3; ++i, ++out) {
    const auto three = [i](const uint8_t* at) { return static_cast<unsigned>(at[i - 3] + at[i] + at[i + 3]); };
    const unsigned sum = three(above) + three(row) + three(below) + row[i] * 4u, level = sum / 13;
    *out = sum == level * 13 ? static_cast<uint8_t>(std::min(convolved(image, y, i), 255.0f)) : static_cast<uint8_t>(level);
  }
}

// The convolution's results lose their fraction; border pixels are the picture's.
void sharpen(Canvas& canvas, float factor) {
  Image& image = canvas.image();
  if (image.width() < 3 || image.height() < 3) return;
  Image& smooth = canvas.next();
  std::memcpy(smooth.row(0), image.row(0), image.byte_count());
  for (int y = 1; y + 1 < image.height(); ++y) smooth_trimmed(image, y, smooth.row(y) + 3);
  blend(smooth.row(0), image.row(0), factor, image.byte_count(), image.row(0));
}

Lut autocontrast(const Histogram& counts) {
  Lut lut;
  for (size_t c = 0; c < 3; ++c) {
    const auto used = [&](int i) { return counts[c][static_cast<size_t>(i)] != 0; };
    int low = 0, high = 255;
    while (!used(low)) ++low;
    while (!used(high)) --high;
    const float scale = high > low ? 255.0f / static_cast<float>(high - low) : 1.0f;
    const float offset = high > low ? -static_cast<float>(low) * scale : 0.0f;
    for (int i = 0; i < 256; ++i) {
      lut[c][static_cast<size_t>(i)] = static_cast<uint8_t>(std::clamp(static_cast<float>(i) * scale + offset, 0.0f, 255.0f));
    }
  }
  return lut;
}

// By 8 - bits as a byte, and by at most 7.
Lut posterize(int bits) {
  const int shift = std::min((8 - bits) & 255, 7);
  return same_for_channels([shift](int i) { return (i >> shift) << shift; });
}

void contrast(Image& image, float factor) {
  const double pixels = static_cast<double>(image.byte_count() / 3);
  apply_lut(blend_table(static_cast<uint8_t>(std::min(pixels / 256, 255.0)), factor), image);
}

void cut_out(Image& image, int x, int y, int reach, const Rgb& fill) {
  const int left = std::max(0, x - reach), right = std::min(image.width(), x + reach);
  for (int line = std::max(0, y - reach); line < std::min(image.height(), y + reach); ++line) {
    for (int column = left; column < right; ++column) std::ranges::copy(fill, image.row(line) + column * 3);
  }
}

}  // namespace

void apply_tensorflow(const AugmentStep& step, const Rgb& fill, Canvas& canvas) {
  Image& image = canvas.image();
  const auto v = static_cast<float>(step.value);
  const int number = static_cast<int>(step.value);
  switch (step.op) {
    case AugmentOp::kAutoContrast: return apply_lut(autocontrast(histogram(image)), image);
    case AugmentOp::kEqualize: return apply_lut(equalize_table(histogram(image)), image);
    case AugmentOp::kInvert: return apply_lut(invert_table(), image);
    case AugmentOp::kRotate: return project(canvas, rotation(v, image.width(), image.height()), fill);
    case AugmentOp::kPosterize: return apply_lut(posterize(number), image);
    case AugmentOp::kSolarize: return apply_lut(solarize_table(number & 255), image);
    case AugmentOp::kSolarizeAdd: return apply_lut(solarize_add_table(number), image);
    case AugmentOp::kColor: return saturate(canvas, v);
    case AugmentOp::kContrast: return contrast(image, v);
    case AugmentOp::kBrightness: return apply_lut(blend_table(0, v), image);
    case AugmentOp::kSharpness: return sharpen(canvas, v);
    case AugmentOp::kShearX: return project(canvas, {1, v, 0, 0, 1, 0}, fill);
    case AugmentOp::kShearY: return project(canvas, {1, 0, 0, v, 1, 0}, fill);
    case AugmentOp::kTranslateX: return project(canvas, {1, 0, v, 0, 1, 0}, fill);
    case AugmentOp::kTranslateY: return project(canvas, {1, 0, 0, 0, 1, v}, fill);
    case AugmentOp::kCutout: return cut_out(image, step.x, step.y, number, fill);
    case AugmentOp::kGaussianBlur:
    case AugmentOp::kHue: break;
  }
  TESSERA_CHECK(false, "{} is not an operation of big_vision's", augment_op_name(step.op));
}

}  // namespace tessera::image
