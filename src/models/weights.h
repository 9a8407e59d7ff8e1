#pragma once
// Arrays in host memory, by name: what weight files hold and what import and export work on.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"

namespace tessera::models {

// Row-major, `data.size() == byte_count(type)`.
struct Array {
  TensorType type;
  std::vector<std::byte> data;
  bool operator==(const Array&) const = default;
};
using Arrays = std::map<std::string, Array>;

// The same, borrowed. `data` need not be aligned.
struct ArrayView {
  TensorType type;
  std::span<const std::byte> data;
};
using ArrayViews = std::map<std::string, ArrayView>;

ArrayViews views(const Arrays& arrays);

Array array_f32(const Dims& dims, const std::vector<float>& values);
Array array_i64(const Dims& dims, const std::vector<int64_t>& values);
// The elements as floats; the array is of a float type (f16, bf16, f32, f64) or i64.
std::vector<float> to_floats(const ArrayView& array);

}  // namespace tessera::models
