#pragma once
// What a thread is doing and since when, so that whoever waits for it can say what hangs. Written by the thread, read by
// others; a write costs a few nanoseconds.

#include <time.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace tessera::data {

class Activity {
 public:
  // The thread begins with a sample of a set. Phases are literals: what they point to is never freed.
  void begin(int32_t set, int64_t sample, const char* phase) {
    set_.store(set, std::memory_order_relaxed);
    sample_.store(sample, std::memory_order_relaxed);
    enter(phase);
  }
  // It goes on with another phase of the same sample. Gives the phase before.
  const char* enter(const char* phase) {
    const char* before = phase_.load(std::memory_order_relaxed);
    since_.store(now_ms(), std::memory_order_relaxed);
    phase_.store(phase, std::memory_order_release);
    return before;
  }
  void rest() { phase_.store(nullptr, std::memory_order_relaxed); }

  struct Seen {
    const char* phase;
    int32_t set;
    int64_t sample;
    double seconds;  // in this phase
  };
  // Nothing while the thread rests. May mix two moments when the thread changes its phase right now, so it is good only for
  // what hangs.
  std::optional<Seen> see() const {
    const char* phase = phase_.load(std::memory_order_acquire);
    if (!phase) return std::nullopt;
    const int64_t since = since_.load(std::memory_order_relaxed);
    return Seen{phase, set_.load(std::memory_order_relaxed), sample_.load(std::memory_order_relaxed),
                static_cast<double>(now_ms() - since) / 1e3};
  }

 private:
  // A clock that is read without asking the processor's: a few milliseconds coarse.
  static int64_t now_ms() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  }

  std::atomic<const char*> phase_{nullptr};
  std::atomic<int32_t> set_{0};
  std::atomic<int64_t> sample_{0}, since_{0};
};

}  // namespace tessera::data
