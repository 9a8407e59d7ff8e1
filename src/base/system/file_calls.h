#pragma once
// Which files threads wait for right now, so that one that never comes is named.

#include <cstdint>
#include <optional>
#include <string>

#include "base/system/periodic.h"

namespace tessera {

// One call of the system about a file, from construction to destruction, which are on one thread. Costs some 20 ns.
class FileCall {
 public:
  // `what` is a literal, as "writing"; `path` outlives this.
  FileCall(const char* what, const std::string& path);
  ~FileCall();
  FileCall(const FileCall&) = delete;
  FileCall& operator=(const FileCall&) = delete;

 private:
  const char* what_before_;
  const std::string* path_before_;
  int64_t since_before_;
};

// For the thread that calls it: its calls are not looked at from now on, because nobody waits for them, or because whoever does
// tells of it.
void leave_out_file_calls();

struct SlowFileCall {
  std::string what, path;
  double seconds = 0;
  int64_t id = 0;  // tells calls apart
};
// "writing `run/metrics.jsonl` has taken 61 s so far"
std::string text_of(const SlowFileCall& call);
// The call under way that has taken longest, where it has taken so many seconds.
std::optional<SlowFileCall> slow_file_call(double seconds);

// Warns of calls that take longer than `patience`, from a thread of its own, until its end.
class FileWatch {
 public:
  explicit FileWatch(double patience_seconds = 60);

 private:
  void look();

  const double patience_;
  int64_t told_ = 0;  // the id of the call that was named last
  double again_ = 0;  // the seconds at which it is named again
  Periodic thread_;   // last: it uses what is above
};

}  // namespace tessera
