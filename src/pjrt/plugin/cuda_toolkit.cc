#include "pjrt/plugin/cuda_toolkit.h"

#include <filesystem>

namespace tessera::pjrt {

namespace fs = std::filesystem;

std::string cuda_toolkit(const std::string& plugin_path) {
  const fs::path packages = fs::path(plugin_path).parent_path() / "../..";
  std::error_code ignored;
  for (const char* toolkit : {"nvidia/cu13", "nvidia/cuda_nvcc"}) {  // of CUDA 13's wheels, and of CUDA 12's
    if (fs::is_directory(packages / toolkit / "nvvm/libdevice", ignored))
      return (packages / toolkit).lexically_normal().string();
  }
  return "";
}

}  // namespace tessera::pjrt
