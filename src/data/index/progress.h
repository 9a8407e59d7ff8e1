#pragma once
// Shows how far the making of an index is.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace tessera::data {

// Thread-safe. Shows a status line on a terminal ten times a second at most.
class IndexProgress {
 public:
  // "data/train: 12,345 files listed"; with `total`, "3 of 1,024 shards scanned".
  IndexProgress(std::string what, std::string unit, int64_t total = 0);
  ~IndexProgress();
  IndexProgress(const IndexProgress&) = delete;
  IndexProgress& operator=(const IndexProgress&) = delete;
  void add(int64_t count);
  double seconds() const;

 private:
  std::string what_, unit_;
  int64_t total_;
  std::atomic<int64_t> done_ = 0;
  std::atomic<int64_t> next_;  // milliseconds since the start, when to show again
  std::chrono::steady_clock::time_point start_;
  bool shown_ = false;
  std::mutex mutex_;
};

}  // namespace tessera::data
