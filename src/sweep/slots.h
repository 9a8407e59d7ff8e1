#pragma once
// Which devices of this machine the runs of a sweep have while they train beside each other.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sweep/sweep.h"

namespace tessera::sweep {

// Slots of `each` GPUs. No GPU is in two slots, because a process takes most of a GPU's memory. There are as many slots as fit, or
// `jobs` where it is given, and at most `runs`. Usage errors where there are too few GPUs.
std::vector<Slot> gpu_slots(const std::vector<std::string>& gpus, int64_t each, std::optional<int64_t> jobs, int64_t runs);

// "0,1; 2,3": the GPUs of each slot; empty where they have none of their own.
std::string gpus_text(const std::vector<Slot>& slots);

}  // namespace tessera::sweep
