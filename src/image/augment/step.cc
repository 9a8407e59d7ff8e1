#include "image/augment/step.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::image {
namespace {

struct OpEntry {
  AugmentOp op;
  const char* name;
  bool geometric;
};
constexpr OpEntry kOps[] = {
    {AugmentOp::kAutoContrast, "AutoContrast", false},
    {AugmentOp::kEqualize, "Equalize", false},
    {AugmentOp::kInvert, "Invert", false},
    {AugmentOp::kRotate, "Rotate", true},
    {AugmentOp::kPosterize, "Posterize", false},
    {AugmentOp::kSolarize, "Solarize", false},
    {AugmentOp::kSolarizeAdd, "SolarizeAdd", false},
    {AugmentOp::kColor, "Color", false},
    {AugmentOp::kContrast, "Contrast", false},
    {AugmentOp::kBrightness, "Brightness", false},
    {AugmentOp::kSharpness, "Sharpness", false},
    {AugmentOp::kShearX, "ShearX", true},
    {AugmentOp::kShearY, "ShearY", true},
    {AugmentOp::kTranslateX, "TranslateX", true},
    {AugmentOp::kTranslateY, "TranslateY", true},
    {AugmentOp::kGaussianBlur, "GaussianBlur", false},
    {AugmentOp::kHue, "Hue", false},
    {AugmentOp::kCutout, "Cutout", false},
};

const OpEntry& entry(AugmentOp op) {
  const OpEntry& found = kOps[static_cast<size_t>(op)];
  TESSERA_CHECK(found.op == op);
  return found;
}

}  // namespace

const char* augment_op_name(AugmentOp op) { return entry(op).name; }

std::string describe(const AugmentStep& step) {
  std::string text = entry(step.op).name;
  const bool valued = step.op > AugmentOp::kInvert;
  if (valued) text += fmt::format(" {:.4g}", step.value);
  if (entry(step.op).geometric) text += fmt::format(" {}", filter_name(step.filter));
  if (step.op == AugmentOp::kCutout) text += fmt::format(" at ({}, {})", step.x, step.y);
  return text;
}

}  // namespace tessera::image
