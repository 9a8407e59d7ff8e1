#pragma once
// Boxes of n-dimensional arrays: parts of one array copied to a place in another.

#include <cstddef>
#include <span>

#include "base/shape.h"

namespace tessera {

// An array in memory, row-major and dense, and where its first element stands in a larger array's coordinates.
struct Placed {
  Dims dims;
  Dims offset;  // same rank
};

// The whole of an array of these dimensions.
inline Placed whole_box(const Dims& dims) { return {dims, Dims(dims.size(), 0)}; }

// Copies what two arrays have in common: the elements whose coordinates lie in both. Gives their number. `element_bytes` is of
// both; memory must not overlap.
int64_t copy_common(const Placed& from, const std::byte* from_data, const Placed& to, std::byte* to_data,
                    int64_t element_bytes);

}  // namespace tessera
