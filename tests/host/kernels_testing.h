#pragma once
// Arrays and threads for the tests of kernels.

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "host/parallel_for.h"

namespace tessera::host {

// Normal numbers, the same in every run.
inline std::vector<float> normal_numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> out(static_cast<size_t>(count));
  // Sums of uniform numbers: std::normal_distribution may differ between libraries.
  for (float& x : out) {
    x = -6;
    for (int i = 0; i < 12; ++i) x += static_cast<float>(generator()) * 0x1p-32F;
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
