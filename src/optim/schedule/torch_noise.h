#pragma once
// torch.Generator().manual_seed(seed): the random numbers that timm's noise on learning rates is made of.

#include <cstdint>

namespace tessera::optim {

struct RateNoise {
  double limit = 0.67;  // drawn again until below this in size
  double deviation = 1;
  uint64_t seed = 42;
};
// timm's Scheduler._calculate_noise at time `t`: torch.randn(1) of the generator seeded with seed + t, times the deviation,
// drawn again until it is below the limit. Rates are multiplied by 1 + this.
double rate_noise(const RateNoise& noise, int64_t t);

}  // namespace tessera::optim
