#pragma once
// Arrays and threads for the tests of kernels.

#include <algorithm>
#include <atomic>
#include <numbers>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/shape.h"
#include "host/emulated_tiles.h"
#include "host/units/parallel_for.h"
#include "host/units/scratch.h"
#include "host/units/tiles.h"
#include "host/units/unit.h"
#include "host/units/vectors.h"

namespace tessera::host {

// The units of this processor, for tests of each.
struct NamedUnit {
  std::string name;
  const Unit* unit;
};
inline void PrintTo(const NamedUnit& unit, std::ostream* out) { *out << unit.name; }
inline std::vector<NamedUnit> units() {
  std::vector<NamedUnit> out = {{"Vectors", &vector_unit()}};
  if (vector_bf16_available()) out.push_back({"VectorsOfBf16", &vector_bf16_unit()});
  if (tiles_available()) {
    out.push_back({"Tiles", &tile_unit()});
    out.push_back({"TilesOfBf16", &tile_bf16_unit()});
  } else if (emulated_tiles_run_here()) {
    out.push_back({"EmulatedTiles", &emulated_tile_unit()});
    out.push_back({"EmulatedTilesOfBf16", &emulated_tile_bf16_unit()});
  }
  return out;
}

// An array of a kernel: numbers that `dtype` holds exactly, as they lie in memory and as f32.
class Numbers {
 public:
  Numbers(DType dtype, std::vector<float> numbers) : dtype_(dtype), f32_(std::move(numbers)), bf16_(f32_.size()) {
    for (size_t i = 0; i < f32_.size(); ++i) bf16_[i] = float_to_bf16(f32_[i]);
    if (dtype == DType::kBF16) read();
  }
  void* data() { return dtype_ == DType::kBF16 ? static_cast<void*>(bf16_.data()) : f32_.data(); }
  DType dtype() const { return dtype_; }
  // What it was made of, or was read last.
  const std::vector<float>& f32() const { return f32_; }
  // What lies in memory now.
  const std::vector<float>& read() {
    for (size_t i = 0; dtype_ == DType::kBF16 && i < f32_.size(); ++i) f32_[i] = bf16_to_float(bf16_[i]);
    return f32_;
  }

 private:
  DType dtype_;
  std::vector<float> f32_;
  std::vector<uint16_t> bf16_;
};

// Memory for what a kernel packs, aligned as it wants it.
class PackedBytes {
 public:
  explicit PackedBytes(int64_t bytes) : memory_(static_cast<size_t>(bytes + Scratch::kAlign), 0xff) {}
  uint8_t* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (Scratch::kAlign - address % Scratch::kAlign) % Scratch::kAlign;
  }

 private:
  std::vector<uint8_t> memory_;
};

// What rounding to a dtype changes a number by at most, as a share of it.
inline double rounding_of(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24; }

// Normal numbers, the same in every run.
inline std::vector<float> normal_numbers(int64_t count, uint32_t seed) {
  std::vector<float> out(static_cast<size_t>(count));
  // Sums of four uniform numbers, of variance one: std::normal_distribution may differ between libraries. Not by std::mt19937,
  // which took a third of the time of these tests, as it is not optimised here.
  for (uint32_t i = 0; i < count; ++i) {
    double sum = -2;
    for (const uint32_t word : philox4x32({i}, {seed})) sum += word * 0x1p-32;
    out[i] = static_cast<float>(sum * std::numbers::sqrt3);
  }
  return out;
}

inline ParallelFor on_threads(int threads) {
  return [threads](const std::vector<Phase>& phases) {
    for (const Phase& phase : phases) {
      std::atomic<int64_t> next{0};
      const auto run = [&] {
        for (int64_t i = next++; i < phase.count; i = next++) phase.work(i);
      };
      std::vector<std::jthread> helpers;
      for (int i = 1; i < threads; ++i) helpers.emplace_back(run);
      run();
    }
  };
}

}  // namespace tessera::host
