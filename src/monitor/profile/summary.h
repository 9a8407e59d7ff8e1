#pragma once
// A profile in words and numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/profile/profile.h"
#include "monitor/profile/xspace.h"

namespace tessera::profile {

// All spans of one name.
struct Total {
  std::string name;
  int64_t count = 0;
  int64_t time = 0, longest = 0;  // nanoseconds
};

struct Summary {
  int64_t duration = 0;  // nanoseconds, as all times here
  // Whole steps of the training loop.
  int64_t steps = 0, median_step = 0, slowest_step = 0, slowest = kNoNumber;  // of `slowest` the number
  // The greatest time first. Phases are without the phases within them, so that those of a step add up to its time; a step's
  // own time is what is no phase of it.
  std::vector<Total> phases, input, kernels, runtime, saves;
  std::vector<Total> device;  // operations of all devices, of the plugin's lines of operations
  std::vector<CpuTime> cpu;
  int input_threads = 0;
  int64_t lost = 0;  // spans that found no room
};
Summary summarise(const Profile& profile, const std::vector<DevicePlane>& device);

// Some 20 to 60 lines, without a line end at the last.
std::string table(const Summary& summary, const std::string& reason);

}  // namespace tessera::profile
