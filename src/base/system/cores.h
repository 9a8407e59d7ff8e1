#pragma once
// The cores that this process may use.

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace tessera {

// Those of the affinity that the process started with (taskset, containers, the share that `tessera launch local:N` gives); at least 1.
// Looked up once: std::thread::hardware_concurrency() counts all that are there, and opens a file each time.
inline int64_t usable_cores() {
  static const int64_t cores = [] {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<int64_t>(CPU_COUNT(&allowed));
    return std::max<int64_t>(1, std::thread::hardware_concurrency());  // more than a cpu_set_t has
  }();
  return cores;
}

}  // namespace tessera
