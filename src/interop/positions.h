#pragma once
// Learned positions moved to another grid, so that a model trained at one resolution continues at another.

#include <cstdint>
#include <vector>

namespace tessera::interop {

enum class Resample {
  // torch's interpolate(mode="bicubic", antialias=True), which timm's resample_abs_pos_embed uses: Keys' cubic with a = -0.5,
  // pixel
  // centres at (i + 0.5), widened by the ratio when the grid shrinks, weights renormalised at the border. Agrees with torch to
  // 1e-5
  // of the largest value (torch sums in float, this in double).
  kBicubic,
  // scipy.ndimage.zoom(order=1), which big_vision's resample_posemb uses: corners stay corners, linear between neighbours.
  kBilinear,
};

struct Grid {
  int64_t rows = 0, columns = 0;
  bool operator==(const Grid&) const = default;
};

// positions [prefix + old grid, width], row-major -> [prefix + new grid, width]; the prefix is copied.
std::vector<float> resample_positions(const std::vector<float>& positions, int64_t prefix, Grid old_grid, Grid new_grid,
                                      int64_t width, Resample how);

}  // namespace tessera::interop
