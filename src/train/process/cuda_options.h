#pragma once
// The CUDA plugin's options for a client.

#include "pjrt/client.h"

namespace tessera::train {

// JAX's variables of memory hold, as its users have them in their scripts: XLA_CLIENT_MEM_FRACTION, XLA_CLIENT_PREALLOCATE and
// XLA_CLIENT_ALLOCATOR, or the older XLA_PYTHON_CLIENT_MEM_FRACTION and so on. Processes of a group that see the same GPUs
// of a machine, as mpirun and srun start them, divide them; waits for all of the group. Usage Errors.
pjrt::Options cuda_options(const pjrt::ClientGroup& group);

}  // namespace tessera::train
