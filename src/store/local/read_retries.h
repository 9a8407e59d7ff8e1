#pragma once
// Reads that fail on a disk or a network file system, and may succeed a moment later.

#include <cerrno>
#include <chrono>
#include <thread>

namespace tessera::store {

// Counts the tries of one read.
class ReadRetries {
 public:
  // Whether a read that failed with `error` (an errno) is worth another try, before which this waits a little: three at most.
  bool again(int error) {
    const bool transient = error == EIO || error == EAGAIN || error == ETIMEDOUT || error == ESTALE;
    if (!transient || tries_ == kMax) return false;
    std::this_thread::sleep_for(kFirstPause * (1 << 2 * tries_++));
    return true;
  }

 private:
  static constexpr int kMax = 3;
  static constexpr auto kFirstPause = std::chrono::milliseconds(10);  // then 40 and 160
  int tries_ = 0;
};

}  // namespace tessera::store
