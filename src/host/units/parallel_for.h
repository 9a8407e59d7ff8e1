#pragma once
// How a kernel uses threads.

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::host {

// x / by, rounded up: the tasks for x things, `by` each.
constexpr int64_t divided_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

// work(i) for every i < count, in any order, on any threads.
struct Phase {
  int64_t count = 0;
  std::function<void(int64_t)> work;
};

// Does the phases one after the other: no call begins before every call of the phase before it has returned. Returns when all
// have. One list costs one waking of threads, so a kernel gives all its phases at once.
using ParallelFor = std::function<void(const std::vector<Phase>& phases)>;

}  // namespace tessera::host
