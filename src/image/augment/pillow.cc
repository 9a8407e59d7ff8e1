// apply_pillow of step.h.
#include <cstring>

#include "base/error.h"
#include "image/augment/step.h"
#include "image/augment/tables.h"
#include "image/ops/affine.h"
#include "image/ops/blur.h"
#include "image/ops/hue.h"
#include "image/ops/pixels.h"

namespace tessera::image {
namespace {

void affine(Canvas& canvas, const AffineMatrix& matrix, Filter filter, const Rgb& fill) {
  const Image& from = canvas.image();
  transform_affine(from, matrix, filter, fill, canvas.next());
  canvas.swap();
}

void contrast(Image& image, float factor) {
  const double pixels = static_cast<double>(image.byte_count() / 3);
  const auto mean = static_cast<uint8_t>(static_cast<double>(grey_sum(image)) / pixels + 0.5);
  apply_lut(blend_table(mean, factor), image);
}

void sharpen(Canvas& canvas, float factor) {
  const Image& from = canvas.image();
  if (from.width() < 3 || from.height() < 3) return;
  Image& to = canvas.next();
  const auto row_bytes = static_cast<size_t>(from.stride());
  canvas.row.reset(row_bytes);
  std::memcpy(to.row(0), from.row(0), row_bytes);
  for (int y = 1; y + 1 < from.height(); ++y) {
    uint8_t* smooth = canvas.row.data();
    const uint8_t* row = from.row(y);
    smooth_row(from.row(y - 1), row, from.row(y + 1), row_bytes - 6, smooth);
    std::memcpy(to.row(y), row, 3);
    blend(smooth, row + 3, factor, row_bytes - 6, to.row(y) + 3);
    std::memcpy(to.row(y) + row_bytes - 3, row + row_bytes - 3, 3);
  }
  std::memcpy(to.row(from.height() - 1), from.row(from.height() - 1), row_bytes);
  canvas.swap();
}

}  // namespace

void apply_pillow(const AugmentStep& step, const Rgb& fill, Canvas& canvas) {
  Image& image = canvas.image();
  const double v = step.value;
  const auto factor = static_cast<float>(v);
  const int number = static_cast<int>(v);
  switch (step.op) {
    case AugmentOp::kAutoContrast: return apply_lut(autocontrast_table(histogram(image)), image);
    case AugmentOp::kEqualize: return apply_lut(equalize_table(histogram(image)), image);
    case AugmentOp::kInvert: return apply_lut(invert_table(), image);
    case AugmentOp::kRotate: return rotate(canvas, v, step.filter, fill);
    case AugmentOp::kPosterize: return apply_lut(posterize_table(number), image);
    case AugmentOp::kSolarize: return apply_lut(solarize_table(number), image);
    case AugmentOp::kSolarizeAdd: return apply_lut(solarize_add_table(number), image);
    case AugmentOp::kColor: return blend_with_grey(image, factor);
    case AugmentOp::kContrast: return contrast(image, factor);
    case AugmentOp::kBrightness: return apply_lut(blend_table(0, factor), image);
    case AugmentOp::kSharpness: return sharpen(canvas, factor);
    case AugmentOp::kShearX: return affine(canvas, {1, v, 0, 0, 1, 0}, step.filter, fill);
    case AugmentOp::kShearY: return affine(canvas, {1, 0, 0, v, 1, 0}, step.filter, fill);
    case AugmentOp::kTranslateX: return affine(canvas, {1, 0, v, 0, 1, 0}, step.filter, fill);
    case AugmentOp::kTranslateY: return affine(canvas, {1, 0, 0, 0, 1, v}, step.filter, fill);
    case AugmentOp::kGaussianBlur: return box_gaussian_blur(canvas, factor);
    case AugmentOp::kHue: return shift_hue(image, v);
    case AugmentOp::kCutout: break;
  }
  TESSERA_CHECK(false, "{} is not an operation of Pillow's", augment_op_name(step.op));
}

}  // namespace tessera::image
