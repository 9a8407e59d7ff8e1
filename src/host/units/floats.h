#pragma once
// Arrays of f32 or bf16 for kernels that compute in f32.

#include <cstdint>

#include "base/shape.h"
#include "host/units/rows.h"

namespace tessera::host {

inline const void* at(const void* data, DType dtype, int64_t number) {
  return static_cast<const uint8_t*>(data) + number * element_bytes(dtype);
}
inline void* at(void* data, DType dtype, int64_t number) { return static_cast<uint8_t*>(data) + number * element_bytes(dtype); }

// Of an array of bf16.
inline const uint16_t* bf16_at(const void* data, int64_t number) { return static_cast<const uint16_t*>(data) + number; }
inline uint16_t* bf16_at(void* data, int64_t number) { return static_cast<uint16_t*>(data) + number; }

// Numbers as f32: where they lie, or widened to `to`.
inline const float* read(const void* data, DType dtype, int64_t first, int64_t count, float* to) {
  const void* from = at(data, dtype, first);
  if (dtype == DType::kF32) return static_cast<const float*>(from);
  widen(static_cast<const uint16_t*>(from), count, to);
  return to;
}

// Where f32 results of an array are computed: in place, or in `apart`, from where `round` takes them.
inline float* place(void* data, DType dtype, int64_t first, float* apart) {
  return dtype == DType::kF32 ? static_cast<float*>(data) + first : apart;
}
inline void round(const float* numbers, int64_t count, void* data, DType dtype, int64_t first) {
  if (dtype != DType::kF32) narrow(numbers, count, static_cast<uint16_t*>(at(data, dtype, first)));
}

}  // namespace tessera::host
