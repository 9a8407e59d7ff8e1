#pragma once
// SIGTERM and Ctrl-C ask the run to finish its step, save and end.

#include "base/error.h"

namespace tessera::train {

// While one lives, SIGTERM and SIGINT only set a flag; a second SIGINT ends the process at once with exit code 130. The
// handlers that were there before come back with its end. One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
  // The exit code that goes with the signal: kPreempted for SIGTERM, kInterrupted for SIGINT. kDone when there was none.
  Exit exit_code() const;
  // "SIGTERM", "Ctrl-C".
  const char* name() const;
};

}  // namespace tessera::train
