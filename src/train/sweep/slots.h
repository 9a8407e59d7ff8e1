#pragma once
// Which devices of this machine the runs of a sweep have while they train beside each other.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/plugin/plugin.h"
#include "train/sweep/sweep.h"

namespace tessera::sweep {

// The GPUs (kCuda) or TPU chips (kTpu) of this machine that this process may use.
struct Accelerators {
  pjrt::Platform platform = pjrt::Platform::kCuda;
  std::vector<std::string> names;  // as CUDA_VISIBLE_DEVICES and TPU_VISIBLE_CHIPS have them
  bool named = false;              // by that variable, so that the machine may have more

  static Accelerators of_machine(pjrt::Platform platform);
};

// Slots of `each` GPUs or TPU chips, 1 where it is not given. None is in two slots: a process takes most of a GPU's memory, and all
// of a chip. There are as many slots as fit, or `jobs` where it is given, and at most `runs`. Chips that are not seen are one run's at
// a time where nobody asks for more. Usage errors where there are too few, or chips that libtpu does not divide so.
std::vector<Slot> accelerator_slots(const Accelerators& accelerators, std::optional<int64_t> each, std::optional<int64_t> jobs,
                                    int64_t runs);

// "GPUs 0,1; 2,3": those of each slot; empty where they have none of their own.
std::string slots_text(pjrt::Platform platform, const std::vector<Slot>& slots);

}  // namespace tessera::sweep
