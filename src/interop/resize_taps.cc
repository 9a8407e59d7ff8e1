#include "interop/resize_taps.h"

#include <algorithm>
#include <cmath>

namespace tessera::interop {
namespace {

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

}  // namespace

Taps bicubic_taps(int64_t index, int64_t from, int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double widen = std::max(ratio, 1.0), centre = ratio * (static_cast<double>(index) + 0.5);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - 2 * widen + 0.5), 0);
  const int64_t last = std::min<int64_t>(static_cast<int64_t>(centre + 2 * widen + 0.5), from);
  Taps taps{first, {}};
  double total = 0;
  for (int64_t i = first; i < last; ++i) {
    taps.weights.push_back(cubic((static_cast<double>(i) - centre + 0.5) / widen));
    total += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= total;
  return taps;
}

}  // namespace tessera::interop
