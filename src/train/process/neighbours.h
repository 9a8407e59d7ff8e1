#pragma once
// Which processes of a run share a machine's devices.

#include <cstdint>
#include <string>

#include "pjrt/client.h"

namespace tessera::train {

// This process among those of the group that run on the same machine and see the same devices, in the order of the processes.
struct Neighbours {
  int64_t place = 0, count = 1;
};

// `devices`: which ones this process sees, in whatever words, the same in processes that see the same. All processes of the group
// tell each other; waits for those that have not begun.
Neighbours find_neighbours(const pjrt::ClientGroup& group, const std::string& devices);

}  // namespace tessera::train
