#include "models/weights.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace tessera::models {
namespace {

float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else if (exponent == 31) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Reads elements of T, which may stand at any address, and maps each to a float.
template <class T, class Fn>
std::vector<float> read(std::span<const std::byte> data, Fn to_float) {
  std::vector<float> values(data.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, data.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(element);
  }
  return values;
}

}  // namespace

ArrayViews views(const Arrays& arrays) {
  ArrayViews borrowed;
  for (const auto& [name, array] : arrays) borrowed[name] = {array.type, array.data};
  return borrowed;
}

Array array_f32(const Dims& dims, const std::vector<float>& values) {
  TESSERA_CHECK(element_count(dims) == static_cast<int64_t>(values.size()), "{} values for {}", values.size(), to_string(dims));
  Array array{{DType::kF32, dims}, std::vector<std::byte>(values.size() * sizeof(float))};
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

Array array_i64(const Dims& dims, const std::vector<int64_t>& values) {
  TESSERA_CHECK(element_count(dims) == static_cast<int64_t>(values.size()), "{} values for {}", values.size(), to_string(dims));
  Array array{{DType::kI64, dims}, std::vector<std::byte>(values.size() * sizeof(int64_t))};
  if (!values.empty()) std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

std::vector<float> to_floats(const ArrayView& array) {
  switch (array.type.dtype) {
    case DType::kF32: return read<float>(array.data, [](float x) { return x; });
    case DType::kF64: return read<double>(array.data, [](double x) { return static_cast<float>(x); });
    case DType::kBF16: return read<uint16_t>(array.data, [](uint16_t x) { return bf16_to_float(x); });
    case DType::kI64: return read<int64_t>(array.data, [](int64_t x) { return static_cast<float>(x); });
    case DType::kF16: return read<uint16_t>(array.data, half_to_float);
    default: TESSERA_CHECK(false, "{} read as floats", to_string(array.type));
  }
  return {};
}

}  // namespace tessera::models
