#pragma once
// Where the threads of this program spend processor time: the address that each is at, asked for after every millisecond or so
// that it has computed (SIGPROF from a timer of each thread's own clock, at which the system looks when it ticks). Time in the
// system counts for the address that called it.

#include <cstdint>
#include <vector>

#include "base/system/spans.h"

namespace tessera {

struct CpuSample {
  uintptr_t address = 0;
  Work work;           // what the thread said that it was at (base/system/spans.h)
  int64_t time = 0;    // nanoseconds of the thread's processor time that it stands for: since its last sample, or to the end
  int64_t at = 0;      // span_clock() when it was taken
  int64_t thread = 0;  // the system's number
};

struct CpuSamples {
  std::vector<CpuSample> samples;
  int64_t lost = 0;  // that found no room
};

// Of the threads that there are now; later ones are left out. False, and nothing started, where samples are being taken already,
// or the system has no timers or memory for them.
bool start_cpu_samples();
// What was taken since; empty where nothing was started.
CpuSamples stop_cpu_samples();

}  // namespace tessera
