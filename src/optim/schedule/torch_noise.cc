#include "optim/schedule/torch_noise.h"

#include <cmath>
#include <numbers>
#include <random>

namespace tessera::optim {
namespace {

// at::CPUGeneratorImpl and at::normal_distribution<double>: 53 bits of two words, and Box and Muller's pair, whose
// second number is kept for the next call.
class TorchNormal {
 public:
  explicit TorchNormal(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  double next() {
    if (have_second_) {
      have_second_ = false;
      return second_;
    }
    const double u1 = uniform(), u2 = uniform();
    const double radius = std::sqrt(-2 * std::log1p(-u2)), angle = 2 * std::numbers::pi * u1;
    second_ = radius * std::sin(angle);
    have_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  double uniform() {
    const uint64_t high = engine_(), low = engine_();
    return static_cast<double>((high << 32 | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }
  std::mt19937 engine_;
  double second_ = 0;
  bool have_second_ = false;
};

}  // namespace

double rate_noise(const RateNoise& noise, int64_t t) {
  TorchNormal normal(noise.seed + static_cast<uint64_t>(t));
  for (;;) {
    const double drawn = static_cast<double>(static_cast<float>(normal.next())) * noise.deviation;
    if (std::abs(drawn) < noise.limit) return drawn;
  }
}

}  // namespace tessera::optim
