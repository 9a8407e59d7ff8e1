#pragma once
// What programs may use of the machine that they are for.

#include "host/target.h"
#include "ir/program/gpu_target.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"

namespace tessera::train {

struct Hardware {
  host::Kernels kernels;             // of this host, that programs may call; a plan for other machines has none
  bool gpus = false;                 // programs are for NVIDIA GPUs (ir/program/gpu_target.h)
  ir::GpuTarget::Works cudnn_works;  // there, or null
};

// That of the client's devices: a CPU's kernels are registered with its plugin, and on GPUs cuDNN's attention is tried while a
// program is traced; `cache` keeps that program. The client must outlive it.
Hardware hardware_of(const pjrt::Client& client, const pjrt::ExecutableCache& cache);
// NVIDIA GPUs where cuDNN's attention works, for plans.
Hardware planned_gpus();

}  // namespace tessera::train
