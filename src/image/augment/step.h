#pragma once
// One operation of an augmentation with everything that was drawn for it: what it does to a picture is a function of the step
// and the picture alone. Policies (timm.h, big_vision.h) draw steps; apply_pillow and apply_tensorflow carry them out.

#include <string>
#include <vector>

#include "image/ops/canvas.h"
#include "image/resize/resize.h"

namespace tessera::image {

enum class AugmentOp : uint8_t {
  kAutoContrast,
  kEqualize,
  kInvert,        // these three have no value
  kRotate,        // value: degrees, counter-clockwise (TensorFlow's: the same)
  kPosterize,     // value: bits to keep
  kSolarize,      // value: what is at least this is inverted
  kSolarizeAdd,   // value: added to what is below 128
  kColor,         // value: factor; 0 is grey, 1 the picture
  kContrast,      // value: factor; 0 is the mean grey, 1 the picture
  kBrightness,    // value: factor; 0 is black, 1 the picture
  kSharpness,     // value: factor; 0 is smoothed, 1 the picture
  kShearX,        // value: x' = x + value y
  kShearY,        // value: y' = y + value x
  kTranslateX,    // value: pixels, x' = x + value
  kTranslateY,    // value: pixels, y' = y + value
  kGaussianBlur,  // value: standard deviation in pixels
  kHue,           // value: turns, -1/2 .. 1/2
  kCutout,        // value: half the side of the square round (x, y)
};
const char* augment_op_name(AugmentOp op);

struct AugmentStep {
  AugmentOp op;
  double value = 0;
  Filter filter = Filter::kBicubic;  // of rotations, shears and translations
  int x = 0, y = 0;                  // the centre of a cutout
};
using AugmentSteps = std::vector<AugmentStep>;
std::string describe(const AugmentStep& step);  // "Rotate 27.3 bicubic"

// As timm calls Pillow and torchvision, bit for bit. `fill` is the colour outside the picture.
void apply_pillow(const AugmentStep& step, const Rgb& fill, Canvas& canvas);

// As big_vision's autoaugment.py: geometry takes the nearest pixel, contrast blends with the number of pixels / 256, and a
// whole number too large for a byte wraps round.
void apply_tensorflow(const AugmentStep& step, const Rgb& fill, Canvas& canvas);

}  // namespace tessera::image
