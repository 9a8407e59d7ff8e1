#pragma once
// One loop, on several threads.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cores.h"

namespace tessera {

// How many threads `wanted` means: 0 is one for each core; never more than there is work for, and at least 1.
inline int thread_count(int64_t wanted, int64_t work) {
  return static_cast<int>(std::clamp<int64_t>(wanted > 0 ? wanted : usable_cores(), 1, std::max<int64_t>(1, work)));
}

// Calls body(index, thread) for every index in [0, count), with 0 <= thread < threads, and returns when all are done. After an
// exception no further index is begun, and the exception of the lowest index that threw is thrown here.
inline void parallel_for(int64_t count, int threads, const std::function<void(int64_t index, int thread)>& body) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr failed;
  int64_t failed_at = count;
  const auto work = [&](int thread) {
    for (int64_t index; (index = next.fetch_add(1)) < count;) {
      try {
        body(index, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (index < failed_at) failed_at = index, failed = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> others;
  try {
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  } catch (const std::system_error&) {
    // The system has no more threads: those that are there do it.
  }
  work(0);
  for (std::thread& other : others) other.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace tessera
