#pragma once
// How a kernel uses threads, and the memory that each of them keeps.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
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

// Memory that grows and is kept: one a thread. What it holds is lost when it grows.
class Scratch {
 public:
  static constexpr int64_t kAlign = 64;

  template <class T>
  T* get(int64_t count) {
    const int64_t size = (count * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign;
    if (size > size_) {
      size_ = 0;
      memory_.reset();
      memory_.reset(std::aligned_alloc(kAlign, static_cast<size_t>(size)));
      if (!memory_) throw std::bad_alloc();
      size_ = size;
    }
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  int64_t size_ = 0;
};

}  // namespace tessera::host
