#include "interop/positions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interop/resize_taps.h"

namespace tessera::interop {
namespace {

Taps bilinear_taps(int64_t index, int64_t from, int64_t to) {
  const double at = to == 1 ? 0 : static_cast<double>(index) * static_cast<double>(from - 1) / static_cast<double>(to - 1);
  const int64_t first = std::min<int64_t>(static_cast<int64_t>(at), std::max<int64_t>(from - 2, 0));
  const double part = at - static_cast<double>(first);
  return from == 1 ? Taps{0, {1}} : Taps{first, {1 - part, part}};
}

// [outer, from, inner] -> [outer, to, inner].
std::vector<double> resample_axis(const std::vector<double>& in, int64_t outer, int64_t from, int64_t to, int64_t inner,
                                  Resample how) {
  std::vector<double> out(static_cast<size_t>(outer * to * inner), 0.0);
  for (int64_t t = 0; t < to; ++t) {
    const Taps taps = how == Resample::kBicubic ? bicubic_taps(t, from, to) : bilinear_taps(t, from, to);
    for (int64_t o = 0; o < outer; ++o) {
      double* target = out.data() + (o * to + t) * inner;
      for (size_t k = 0; k < taps.weights.size(); ++k) {
        const double* source = in.data() + (o * from + taps.first + static_cast<int64_t>(k)) * inner;
        for (int64_t i = 0; i < inner; ++i) target[i] += taps.weights[k] * source[i];
      }
    }
  }
  return out;
}

}  // namespace

std::vector<float> resample_positions(const std::vector<float>& positions, int64_t prefix, Grid old_grid, Grid new_grid,
                                      int64_t width, Resample how) {
  TESSERA_CHECK(static_cast<int64_t>(positions.size()) == (prefix + old_grid.rows * old_grid.columns) * width,
                "{} values for {} + {} x {} positions of {}", positions.size(), prefix, old_grid.rows, old_grid.columns, width);
  const auto grid_begin = positions.begin() + prefix * width;
  std::vector<double> grid(grid_begin, positions.end());
  grid = resample_axis(grid, old_grid.rows, old_grid.columns, new_grid.columns, width, how);
  grid = resample_axis(grid, 1, old_grid.rows, new_grid.rows, new_grid.columns * width, how);
  std::vector<float> out(positions.begin(), grid_begin);
  for (const double value : grid) out.push_back(static_cast<float>(value));
  return out;
}

}  // namespace tessera::interop
