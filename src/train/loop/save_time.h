#pragma once
// Whether a checkpoint is written in the time that the last one gets.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tessera::train {

// Whoever ends a run may give it so long from SIGTERM on: a job before its time limit, a pod that is taken away. A save that takes
// half of that is too close: the last one waits for the step at hand, too, and for a save that is under way.
class SaveTime {
 public:
  // Nothing: no such limit is known.
  explicit SaveTime(std::optional<std::chrono::seconds> given) : given_(given) {}

  // So long after its beginning a checkpoint was whole. From any thread.
  void took(std::chrono::milliseconds time);
  // Once, when a save took half of the time or more; nothing otherwise.
  std::optional<std::string> warning();

 private:
  const std::optional<std::chrono::seconds> given_;
  std::atomic<int64_t> longest_{0};  // milliseconds
  bool told_ = false;
};

}  // namespace tessera::train
