#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tessera {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char ch : name) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  return h;
}

Rng::Rng(uint64_t seed, uint64_t a, uint64_t b) {
  // The key mixes the seed with the upper halves of a and b through one Philox block; their lower halves go into the counter,
  // whose first word counts blocks.
  const auto mixed = philox4x32({static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b >> 32), static_cast<uint32_t>(b), 1},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  key_ = {mixed[0], mixed[1]};
  counter_ = {0, static_cast<uint32_t>(a), static_cast<uint32_t>(b), mixed[2]};
}

uint32_t Rng::next() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

double Rng::uniform() {
  const uint64_t high = next() >> 5, low = next() >> 6;
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

uint64_t Rng::below(uint64_t n) {
  TESSERA_CHECK(n >= 1);
  const uint64_t limit = ~uint64_t{0} - (~uint64_t{0} % n + 1) % n;  // the largest multiple of n, minus one
  for (;;) {
    const uint64_t x = (uint64_t{next()} << 32) | next();
    if (x <= limit) return x % n;
  }
}

double Rng::normal() {
  const double u = 1.0 - uniform(), v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

double Rng::gamma(double a) {
  // Below 1 by one of a + 1, whose acceptance is good: G(a) = G(a + 1) U^(1/a).
  if (a < 1) {
    const double scale = std::pow(1.0 - uniform(), 1 / a);
    return gamma(a + 1) * scale;
  }
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1.0 - uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double Rng::beta(double a, double b) {
  // Both may underflow to 0 where a and b are tiny: then one of the ends, as likely as its mean says.
  const double x = gamma(a), y = gamma(b);
  return x + y > 0 ? x / (x + y) : uniform() < a / (a + b) ? 1 : 0;
}

uint64_t permute(uint64_t index, uint64_t n, uint64_t key) {
  TESSERA_CHECK(index < n);
  const int bits = std::bit_width(n - 1);
  const int half = (bits + 1) / 2;
  if (half == 0) return 0;
  const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << half) - 1);
  uint64_t x = index;
  do {
    uint32_t left = static_cast<uint32_t>(x >> half), right = static_cast<uint32_t>(x) & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint32_t f = philox4x32({right, round, 0, 0}, {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)})[0];
      const uint32_t next = left ^ (f & mask);
      left = right;
      right = next;
    }
    x = (uint64_t{left} << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace tessera
