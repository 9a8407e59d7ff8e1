#include "base/hash.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tessera {
namespace {

// Odd 64-bit constants; the two of `avalanche` are the finaliser of MurmurHash3 (Appleby, 2011).
constexpr uint64_t kP1 = 0x9fb21c651e98df25, kP2 = 0xbf58476d1ce4e5b9, kP3 = 0x94d049bb133111eb, kP4 = 0xc2b2ae3d27d4eb4f;

uint64_t avalanche(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

}  // namespace

// Both lanes are one-to-one in the word for a given state and in the state for a given word, so no word can be lost.
void Hasher::mix(uint64_t word) {
  a_ = std::rotl(a_ ^ (word * kP1), 31) * kP2 + b_;
  b_ = std::rotl(b_ ^ (std::rotl(word, 29) * kP3), 27) * kP4 + a_;
}

Hasher& Hasher::add(std::string_view bytes) {
  mix(bytes.size());
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    mix(word);
  }
  if (!bytes.empty()) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    mix(word);
  }
  return *this;
}

Hash128 Hasher::finish() const {
  const uint64_t high = avalanche(a_ + std::rotl(b_, 32));
  return {high, avalanche(b_ ^ high)};
}

Hash128 hash128(std::string_view bytes) { return Hasher().add(bytes).finish(); }

std::string to_string(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

}  // namespace tessera
