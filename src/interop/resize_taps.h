#pragma once
// Cubic resizing of a row of samples, as weights.

#include <cstdint>
#include <vector>

namespace tessera::interop {

// One output sample: weights of the inputs from `first` on.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

// Output `index` of `to` from `from` inputs, as torch's interpolate(mode="bicubic", antialias=True): Keys' cubic with a = -0.5,
// pixel centres at (i + 0.5), widened by the ratio when there are fewer outputs, weights renormalised at the border.
Taps bicubic_taps(int64_t index, int64_t from, int64_t to);

}  // namespace tessera::interop
