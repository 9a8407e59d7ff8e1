#pragma once
// The arrays alive at a program's peak of memory, by names that a user knows: those of parameters, of optimizer state and of the parts of
// the model. They come from the locations in the program's text (ir/program/emit.h), which XLA keeps as metadata.

#include <string>
#include <vector>

#include "plan/liveness.h"

namespace tessera::plan {

struct LiveArray {
  std::string name;   // "params/blocks/mlp/fc1/kernel, gathered"
  std::string type;   // "bf16[36864, 9216]", of one device
  int64_t bytes = 0;  // in its memory, padding included
};

// In the order of Liveness::at_peak. What can't be named is called by its operation: "an unnamed fusion". Throws a device Error
// where the module contradicts itself.
std::vector<LiveArray> live_arrays(const pjrt::HloModule& module, const Liveness& liveness);

}  // namespace tessera::plan
