#pragma once
// The end of a run whose disk does not answer.

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/system/periodic.h"
#include "train/process/stop_signal.h"

namespace tessera::train {

// How long a file may take that the end of a run waits for, once a signal came: a checkpoint's files are written 1 GiB at a time,
// which the slowest disks do in less.
inline constexpr std::chrono::seconds kStopPatience{120};

// While it lives: where a signal came `patience` ago, and one call about a file has taken that long since
// (base/system/file_calls.h), the process ends with exit code 3 and says which file it was. What was saved before is whole.
class StopWatch {
 public:
  StopWatch(const StopSignal& stop, std::chrono::milliseconds patience = kStopPatience);

 private:
  void look();

  const StopSignal& stop_;
  const std::chrono::milliseconds patience_;
  std::optional<std::chrono::steady_clock::time_point> since_;  // the signal was seen
  int64_t slow_ = 0;                                            // the call that was too slow at the look before; 0: none
  Periodic thread_;                                             // last: it uses what is above
};

}  // namespace tessera::train
