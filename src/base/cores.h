#pragma once
// The cores that this process may use.

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace tessera {

// Those of the main thread's affinity (taskset, containers, the share that `tessera launch local:N` gives); at least 1.
inline int64_t count_usable_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(::getpid(), sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max<int64_t>(1, std::thread::hardware_concurrency());  // more than a cpu_set_t has
}

// The same, counted once. std::thread::hardware_concurrency() counts all cores that are there, and opens a file each time.
inline int64_t usable_cores() {
  static const int64_t cores = count_usable_cores();
  return cores;
}

}  // namespace tessera
