#pragma once
// Element types and shapes of arrays. Shapes are row-major (the last dimension is contiguous).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class DType : uint8_t { kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64 };

using Dims = std::vector<int64_t>;

struct TensorType {
  DType dtype = DType::kF32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  bool operator==(const TensorType&) const = default;
};

// A named array without its data.
struct NamedType {
  std::string name;
  TensorType type;
};

int64_t element_bytes(DType dtype);
bool is_float(DType dtype);
bool is_integer(DType dtype);  // signed or unsigned, kBool excluded
bool is_signed_integer(DType dtype);

// "f32", "bf16", "i32", "u8", "bool": the names of recipes, tables and messages.
std::string_view dtype_name(DType dtype);
// The inverse of dtype_name; throws a usage Error that lists the names.
DType parse_dtype(std::string_view name);

// Number of elements (1 for a scalar).
int64_t element_count(const Dims& dims);
int64_t byte_count(const TensorType& type);

// "[2, 3]" and "f32[2, 3]".
std::string to_string(const Dims& dims);
std::string to_string(const TensorType& type);

// bfloat16 <-> float, round to nearest even; NaN stays NaN.
uint16_t float_to_bf16(float value);
float bf16_to_float(uint16_t bits);

}  // namespace tessera
