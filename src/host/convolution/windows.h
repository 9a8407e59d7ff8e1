#pragma once
// Square windows over pictures, for convolutions and max pooling.

#include <cstdint>
#include <optional>
#include <span>

#include "ir/composites.h"

namespace tessera::host {

// Pictures are [batch, height, width, channels], dense and row-major, and the places of the window [batch, rows(), columns()].
struct Windows {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  int64_t window = 1, stride = 1, padding = 0;

  int64_t rows() const { return geometry().places(height); }
  int64_t columns() const { return geometry().places(width); }
  int64_t places() const { return batch * rows() * columns(); }
  // Numbers that the window sees at a place: [window, window, channels].
  int64_t elements() const { return window * window * channels; }

 private:
  ir::Window geometry() const { return {window, stride, padding}; }
};

// The windows over pictures of these dimensions; nothing without a `window`, or where `out` is not [batch, rows(), columns(), …].
std::optional<Windows> windows_of(std::span<const int64_t> pictures, std::span<const int64_t> out,
                                  const std::optional<ir::Window>& window);

}  // namespace tessera::host
