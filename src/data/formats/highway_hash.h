#pragma once
// HighwayHash-64 (Alakuijala, Cox, Wassenberg: "Fast keyed hash/pseudo-random function using SIMD multiply and permute", 2016,
// arXiv 1612.06257), which guards Riegeli files.

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera::data {

using HighwayKey = std::array<uint64_t, 4>;
// Uses the processor's vector instructions where it has them.
uint64_t highway_hash(const HighwayKey& key, std::string_view bytes);

// The same without them: the reference of the tests.
uint64_t highway_hash_portable(const HighwayKey& key, std::string_view bytes);

}  // namespace tessera::data
