#pragma once
// NVIDIA's toolkit beside the CUDA plugin.

#include <string>

namespace tessera::pjrt {

// The directory with nvvm/libdevice in the packages beside this plugin: the value of XLA's flag xla_gpu_cuda_data_dir, as JAX sets
// it. Empty where no package has one; XLA then looks where the system keeps it.
std::string cuda_toolkit(const std::string& plugin_path);

}  // namespace tessera::pjrt
