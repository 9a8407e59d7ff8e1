#include "host/convolution/windows.h"

namespace tessera::host {

std::optional<Windows> windows_of(std::span<const int64_t> pictures, std::span<const int64_t> out,
                                  const std::optional<ir::Window>& window) {
  if (!window || pictures.size() != 4 || out.size() != 4) return std::nullopt;
  if (window->window < 1 || window->stride < 1 || window->padding < 0) return std::nullopt;
  const Windows w{pictures[0], pictures[1], pictures[2], pictures[3], window->window, window->stride, window->padding};
  const bool fits = out[0] == w.batch && out[1] == w.rows() && out[2] == w.columns();
  return fits ? std::optional(w) : std::nullopt;
}

}  // namespace tessera::host
