#include "image/image.h"

#include <cstring>

#include "base/error.h"

namespace tessera::image {
ImageView ImageView::crop(const Box& box) const {
  TESSERA_CHECK(
      box.x >= 0 && box.y >= 0 && box.width > 0 && box.height > 0 && box.x + box.width <= width && box.y + box.height <= height,
      "box {}x{}+{}+{} of {}x{}", box.width, box.height, box.x, box.y, width, height);
  return {row(box.y) + ptrdiff_t{box.x} * Image::kChannels, box.width, box.height, stride};
}

void Image::reset(int width, int height) {
  TESSERA_CHECK(width > 0 && height > 0, "{}x{}", width, height);
  width_ = width;
  height_ = height;
  buffer_.reset(byte_count());
}

void copy_image(const ImageView& from, bool mirror, uint8_t* to, ptrdiff_t stride) {
  const size_t row_bytes = static_cast<size_t>(from.width) * Image::kChannels;
  for (int y = 0; y < from.height; ++y, to += stride) {
    const uint8_t* row = from.row(y);
    if (!mirror) {
      std::memcpy(to, row, row_bytes);
      continue;
    }
    for (int x = 0; x < from.width; ++x) {
      std::memcpy(to + ptrdiff_t{x} * 3, row + ptrdiff_t{from.width - 1 - x} * 3, 3);
    }
  }
}

}  // namespace tessera::image
