#include "train/step/hardware.h"

#include "host/register.h"
#include "train/step/cudnn_trials.h"

namespace tessera::train {

Hardware hardware_of(const pjrt::Client& client, const pjrt::ExecutableCache& cache) {
  if (client.platform_name() == "cuda") return {.gpus = true, .cudnn_works = CudnnTrials(client, cache)};
  return {.kernels = host::register_kernels(client)};
}

Hardware planned_gpus() {
  return {.gpus = true, .cudnn_works = [](const ir::AttentionSizes&) { return true; }};
}

}  // namespace tessera::train
