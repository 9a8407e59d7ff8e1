#pragma once
// Time in which one or more of several threads wait, which counts once.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace tessera::group {

// All functions may be called from any thread. `now` is given by tests.
class WaitTime {
 public:
  using Clock = std::chrono::steady_clock;

  // A thread begins to wait, and later ends it.
  void begin(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (waiting_++ == 0) since_ = now;
  }
  void end(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (--waiting_ == 0) total_ += std::max(now - since_, Clock::duration::zero());
  }
  // Until now, waits under way included.
  double seconds(Clock::time_point now = Clock::now()) const {
    const std::lock_guard lock(mutex_);
    const Clock::duration under_way = waiting_ > 0 ? std::max(now - since_, Clock::duration::zero()) : Clock::duration::zero();
    return std::chrono::duration<double>(total_ + under_way).count();
  }

 private:
  mutable std::mutex mutex_;
  int64_t waiting_ = 0;
  Clock::time_point since_;
  Clock::duration total_{};
};

}  // namespace tessera::group
