#include "interop/resize_taps.h"

#include <algorithm>

#include "base/bicubic.h"

namespace tessera::interop {
Taps bicubic_taps(int64_t index, int64_t from, int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double widen = std::max(ratio, 1.0), centre = ratio * (static_cast<double>(index) + 0.5);
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - 2 * widen + 0.5), 0);
  const int64_t last = std::min<int64_t>(static_cast<int64_t>(centre + 2 * widen + 0.5), from);
  Taps taps{first, {}};
  double total = 0;
  for (int64_t i = first; i < last; ++i) {
    taps.weights.push_back(bicubic_weight((static_cast<double>(i) - centre + 0.5) / widen));
    total += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= total;
  return taps;
}

}  // namespace tessera::interop
