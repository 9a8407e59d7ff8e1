#pragma once
// A fast 128-bit hash of bytes, for names of cached things. Not cryptographic: nobody gains by forging a name here. The value
// is the same on every little-endian machine, and stays the same for ever. Another hash, as XXH3, would hold out other images
// of a `part(…)`: images of training would be among those of the validation of a run that goes on. Checkpoints name their data
// by it, too.

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
};

// Hashes a sequence of byte strings. ("ab", "c") and ("a", "bc") differ: each string's length is part of it.
class Hasher {
 public:
  Hasher& add(std::string_view bytes);
  Hash128 finish() const;

 private:
  void mix(uint64_t word);
  uint64_t a_ = 0x9e3779b97f4a7c15, b_ = 0xd1b54a32d192ed03;
};

Hash128 hash128(std::string_view bytes);
// 32 lower-case hexadecimal digits.
std::string to_string(const Hash128& hash);

}  // namespace tessera
