#pragma once
// How a kernel uses threads, and the memory that each of them keeps.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

namespace tessera::kernels {

// Calls work(i) for every i < count, on any threads, and returns when all calls have returned.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& work)>;

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

}  // namespace tessera::kernels
