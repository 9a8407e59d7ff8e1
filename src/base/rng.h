#pragma once
// Counter-based randomness on the host: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
// Every stream is a function of what names it (seed, epoch, sample id, site), never of thread timing.

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

// One Philox block: four 32-bit words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// FNV-1a, 64 bits: turns a name into a number for keys. Stable for ever: checkpoints and orders depend on it.
uint64_t hash_name(std::string_view name);

// A stream of random numbers keyed by (seed, a, b). Cheap to make: make one per sample.
class Rng {
 public:
  Rng(uint64_t seed, uint64_t a = 0, uint64_t b = 0);

  uint32_t next();
  // Uniform in [0, 1) with 53 random bits.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  // Uniform integer in [0, n), n >= 1, without modulo bias.
  uint64_t below(uint64_t n);
  // Standard normal (Box-Muller).
  double normal();
  // Gamma of shape a > 0 and scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables", 2000).
  double gamma(double a);
  // Beta(a, b), a and b above 0.
  double beta(double a, double b);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
};

// A keyed permutation of [0, n): a four-round Feistel network over the next even number of bits, walked until it lands inside
// [0, n). O(1) memory, so that sample order is a function of position. Requires index < n, n >= 1.
uint64_t permute(uint64_t index, uint64_t n, uint64_t key);

}  // namespace tessera
