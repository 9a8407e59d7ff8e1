#include "image/ops/window.h"

#include <algorithm>
#include <cstring>

namespace tessera::image {
namespace {

// Where pixel i of an axis of `count` mirrored without end comes from.
int reflected(int i, int count) {
  if (count == 1) return 0;
  const int period = 2 * (count - 1);
  const int at = (i % period + period) % period;
  return at < count ? at : period - at;
}

void cut_row(const uint8_t* from, int width, const Box& box, const Padding& padding, uint8_t* to) {
  for (int x = 0; x < box.width; ++x, to += 3) {
    const int source = box.x + x;
    if (source >= 0 && source < width) {
      std::memcpy(to, from + source * 3, 3);
    } else if (padding.reflect) {
      std::memcpy(to, from + reflected(source, width) * 3, 3);
    } else {
      std::ranges::copy(padding.fill, to);
    }
  }
}

}  // namespace

void cut_window(Canvas& canvas, const Box& box, const Padding& padding) {
  const Image& from = canvas.image();
  Image& to = canvas.next(box.width, box.height);
  for (int y = 0; y < box.height; ++y) {
    const int source = box.y + y;
    const bool inside = source >= 0 && source < from.height();
    if (inside || padding.reflect) {
      cut_row(from.row(reflected(source, from.height())), from.width(), box, padding, to.row(y));
    } else {
      for (int x = 0; x < box.width; ++x) std::ranges::copy(padding.fill, to.row(y) + x * 3);
    }
  }
  canvas.swap();
}

}  // namespace tessera::image
