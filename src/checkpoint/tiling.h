#pragma once
// Whether pieces of an array make the whole of it.

#include <optional>
#include <span>
#include <string>

#include "base/box.h"

namespace tessera::checkpoint {

// More pieces than an array has on any machine; bounds the work that a hostile file can cause.
inline constexpr size_t kMaxPieces = 16384;

// Whether two boxes of an array, inside it and not empty, have an element in common.
bool overlap(const Placed& a, const Placed& b);

// Nothing when every piece lies inside an array of `whole` (whose element count fits 64 bits), no two have an element in
// common, and together they hold all; else what is wrong, as "the pieces at [0, 0] and [0, 2] overlap". Piece dimensions and
// offsets may be any numbers.
std::optional<std::string> tiling_error(const Dims& whole, std::span<const Placed> pieces);

}  // namespace tessera::checkpoint
