#pragma once
// Temporary memory of a kernel.

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace tessera::host {

// Memory that grows and is kept; what it holds is lost when it grows. A task of a phase has it as a `thread_local` variable, so
// that it stays in the caches of the thread's core: for what a core works on at a time, nothing that grows with the batch.
class Scratch {
 public:
  static constexpr int64_t kAlign = 64;  // bytes: any vector

  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    int64_t bytes = 0;
  };

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // `count` numbers, until the next get(). Throws std::bad_alloc.
  template <class T>
  T* get(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > block_.bytes) grow(bytes);
    return static_cast<T*>(block_.memory.get());
  }

 protected:
  explicit Scratch(bool shared) : shared_(shared) {}

 private:
  void grow(int64_t bytes);

  Block block_;
  bool shared_ = false;
};

// Of a whole call, for all its tasks: a local variable. Its blocks go from call to call, so that there are as many as calls run
// at a time. A plugin runs calls on threads of its choice: with a block for each thread, a ViT-S/16 step of 16 images kept
// 66 MiB on every thread.
class CallScratch : public Scratch {
 public:
  CallScratch() : Scratch(/*shared=*/true) {}
};

}  // namespace tessera::host
