#include "base/shape.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace tessera {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<DTypeRow, 13> kRows{{{DType::kBool, "bool", 1},
                                          {DType::kI8, "i8", 1},
                                          {DType::kI16, "i16", 2},
                                          {DType::kI32, "i32", 4},
                                          {DType::kI64, "i64", 8},
                                          {DType::kU8, "u8", 1},
                                          {DType::kU16, "u16", 2},
                                          {DType::kU32, "u32", 4},
                                          {DType::kU64, "u64", 8},
                                          {DType::kF16, "f16", 2},
                                          {DType::kBF16, "bf16", 2},
                                          {DType::kF32, "f32", 4},
                                          {DType::kF64, "f64", 8}}};

const DTypeRow& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int64_t element_bytes(DType dtype) { return row(dtype).bytes; }
bool is_float(DType dtype) { return dtype >= DType::kF16; }
bool is_integer(DType dtype) { return dtype != DType::kBool && !is_float(dtype); }
bool is_signed_integer(DType dtype) { return dtype >= DType::kI8 && dtype <= DType::kI64; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }

DType parse_dtype(std::string_view name) {
  std::string known;
  for (const DTypeRow& r : kRows) {
    if (r.name == name) return r.dtype;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", r.name);
  }
  throw usage_error(fmt::format("unknown dtype `{}`", name), "", "known: " + known);
}

int64_t element_count(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

int64_t byte_count(const TensorType& type) { return element_count(type.dims) * element_bytes(type.dtype); }

std::string to_string(const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return s + "]";
}

std::string to_string(const TensorType& type) { return fmt::format("{}{}", dtype_name(type.dtype), to_string(type.dims)); }

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace tessera
