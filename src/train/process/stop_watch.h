#pragma once
// The end of a run whose disk does not answer.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/system/periodic.h"
#include "train/process/stop_signal.h"

namespace tessera::train {

// How long a file may take that the end of a run waits for, once a signal came: a checkpoint's files are written 1 GiB at a time,
// which the slowest disks do in less.
inline constexpr std::chrono::seconds kStopPatience{120};
// The same where nothing can be lost, and where the signal was repeated.
inline constexpr std::chrono::seconds kShortStopPatience{10};

// While it lives: where a signal came `patience` ago, and one call about a file has taken that long since
// (base/system/file_calls.h), the process ends with exit code 3 and says which file it was. What was saved before is whole.
// Where nothing can be lost the exit code is the signal's, after `short_patience`. After half of that a line says what it waits
// for, and how long it will.
class StopWatch {
 public:
  StopWatch(const StopSignal& stop, std::chrono::milliseconds patience = kStopPatience,
            std::chrono::milliseconds short_patience = kShortStopPatience);

  // Whether a checkpoint has all that the run has done, as before its first step.
  void set_saved(bool saved) { saved_ = saved; }

 private:
  void look();
  void tell_of_wait(std::chrono::milliseconds patience, std::chrono::nanoseconds since_signal);

  const StopSignal& stop_;
  const std::chrono::milliseconds patience_, short_patience_;
  std::atomic<bool> saved_{true};
  std::optional<std::chrono::steady_clock::time_point> since_;  // the signal was seen
  int64_t slow_ = 0;                                            // the call that was too slow at the look before; 0: none
  bool told_ = false;                                           // that the end waits
  Periodic thread_;                                             // last: it uses what is above
};

}  // namespace tessera::train
