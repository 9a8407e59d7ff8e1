#pragma once
// How long to wait before a request is tried again.

#include <chrono>
#include <cstdint>

namespace tessera::store {

// After so many tries that failed: 0.1, 0.3, 0.9, 2.7 s at most, and half of that at least. `random`, in [0, 1), says where in
// between, so that hosts which a server refused together do not come back together.
constexpr std::chrono::milliseconds retry_pause(int failed, double random) {
  double longest = 100;
  for (int i = 1; i < failed; ++i) longest *= 3;
  return std::chrono::milliseconds(static_cast<int64_t>(longest * (1 - random / 2)));
}

}  // namespace tessera::store
