#pragma once
// What a profile holds: what the threads of this program did, and what the plugin says of its devices.

#include <cstdint>
#include <string>
#include <vector>

#include "base/system/spans.h"
#include "monitor/profile/cpu_time.h"

namespace tessera::profile {

struct Profile {
  Recording recording;
  int64_t unix_begin = 0;  // nanoseconds since 1970 at recording.begin
  std::string device;      // the plugin's XSpace (pjrt/plugin/profiler.h), its times since 1970; empty where it has no profiler
  std::vector<CpuTime> cpu;  // where the processors are the device
  std::string host;          // the machine's name
  std::string reason;        // "steps 2-6"; for people
};

}  // namespace tessera::profile
