#pragma once
// NVIDIA's toolkit beside the CUDA plugin.

#include <string>

namespace tessera::pjrt {

// The directory that has nvvm/libdevice among the packages beside this plugin, for XLA's flag xla_gpu_cuda_data_dir, which JAX
// sets likewise. Empty where there is none: XLA then looks in the system's places.
std::string cuda_toolkit(const std::string& plugin_path);

}  // namespace tessera::pjrt
