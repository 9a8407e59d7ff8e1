#pragma once
// The line that says why a run of a sweep failed.

#include <mutex>
#include <string>

namespace tessera::sweep {

// Of the lines of its console its first error, else its last warning (a run goes on when a save fails, and ends with exit code 3),
// else its last line. Thread-safe.
class RunWords {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    const Weight weight = line.starts_with("error: ") ? kError : line.starts_with("warning: ") ? kWarning : kLine;
    if (weight < weight_ || weight_ == kError) return;
    weight_ = weight;
    text_ = weight == kLine ? line : line.substr(line.find(' ') + 1);
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  enum Weight { kLine, kWarning, kError };

  mutable std::mutex mutex_;
  std::string text_;
  Weight weight_ = kLine;
};

}  // namespace tessera::sweep
