#include "image/augment_testing.h"

#include <cstring>
#include <stdexcept>

#include "image/image_testing.h"

namespace tessera::image::testing {
namespace {

Image waves() {
  Image image = formula_image("augment/photo", 28, 20);
  for (int y = 0; y < 20; ++y) {
    for (int i = 0; i < 28 * 3; ++i) {
      const int x = i / 3, c = i % 3;
      image.row(y)[i] = static_cast<uint8_t>(x * 5 + y * (6 - 2 * c) + c * 20 + image.row(y)[i] / 16);
    }
  }
  return image;
}

Image flat() {
  Image image(7, 5);
  const uint8_t colour[] = {200, 31, 77};
  for (size_t i = 0; i < image.byte_count(); ++i) image.row(0)[i] = colour[i % 3];
  return image;
}

Image dark() {
  Image image = formula_image("augment/dark", 19, 13);
  for (size_t i = 0; i < image.byte_count(); ++i) image.row(0)[i] = static_cast<uint8_t>(image.row(0)[i] / 29 + 17);
  return image;
}

}  // namespace

Image augment_picture(const std::string& name) {
  if (name == "photo") return waves();
  if (name == "flat") return flat();
  if (name == "dark") return dark();
  if (name == "noise") return formula_image("augment/noise", 21, 27);
  if (name == "square") return formula_image("augment/square", 17, 17);
  if (name == "tiny") return formula_image("augment/tiny", 5, 4);
  throw std::runtime_error("no picture " + name);
}

AugmentOp augment_op(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(AugmentOp::kCutout); ++i) {
    if (name == augment_op_name(static_cast<AugmentOp>(i))) return static_cast<AugmentOp>(i);
  }
  throw std::runtime_error("no operation " + name);
}

AugmentStep augment_step(const nlohmann::json& entry) {
  AugmentStep step{augment_op(entry.at("op"))};
  step.value = entry.at("value");
  if (entry.contains("filter")) step.filter = *parse_filter(entry.at("filter").get<std::string>());
  if (entry.contains("x")) step.x = entry.at("x");
  if (entry.contains("y")) step.y = entry.at("y");
  return step;
}

void set_picture(Canvas& canvas, const Image& image) {
  Image& to = canvas.next(image.width(), image.height());
  std::memcpy(to.row(0), image.row(0), image.byte_count());
  canvas.swap();
}

}  // namespace tessera::image::testing
