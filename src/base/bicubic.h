#pragma once
// Keys' cubic convolution with a = -1/2: the weights of Pillow's bicubic resize, and of those that follow it.

#include <cmath>

namespace tessera {

// The weight at distance x from the centre, in pixels; 0 from 2 on.
inline double bicubic_weight(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

}  // namespace tessera
