#include "plan/gpu_target.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"

namespace tessera::plan {
namespace {

// NVIDIA's published properties.
struct Gpu {
  const char *chip, *name, *capability;
  int major;
  int64_t cores, cores_fpus, memory, bandwidth, l2, shared_core, shared_block;
  double clock;
};
constexpr Gpu kGpus[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", "8.0", 8, 108, 64, 85100068864, 2039040000000, 41943040, 167936, 166912, 1.41},
    {"h100", "NVIDIA H100 80GB HBM3", "9.0a", 9, 132, 128, 84942979072, 3352320000000, 52428800, 233472, 232448, 1.98},
    {"h200", "NVIDIA H200 141GB HBM3e", "9.0a", 9, 132, 128, 151397597184, 4800000000000, 52428800, 233472, 232448, 1.98},
    {"b200", "NVIDIA B200", "10.0a", 10, 148, 128, 191514411008, 7672320000000, 132644864, 233472, 232448, 1.965},
};

const Gpu* find(const std::string& chip) {
  for (const Gpu& gpu : kGpus) {
    if (chip == gpu.chip) return &gpu;
  }
  return nullptr;
}

}  // namespace

bool is_gpu(const std::string& chip) { return find(chip) != nullptr; }

std::string gpu_target_config(const std::string& chip) {
  const Gpu* g = find(chip);
  TESSERA_CHECK(g, "{} is no GPU", chip);
  return fmt::format(
      "gpu_device_info {{ threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 "
      "shared_memory_per_core: {} threads_per_core_limit: 2048 core_count: {} fpus_per_core: {} block_dim_limit_x: 2147483647 "
      "block_dim_limit_y: 65535 block_dim_limit_z: 65535 memory_bandwidth: {} l2_cache_size: {} clock_rate_ghz: {} "
      "device_memory_size: {} shared_memory_per_block_optin: {} cuda_compute_capability {{ major: {} feature_extension: {} }} "
      "registers_per_core_limit: 65536 registers_per_block_limit: 65536 thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 "
      "thread_dim_limit_z: 64 device_vendor: \"NVIDIA Corporation\" platform_version: \"Compute Capability {}\" "
      "device_address_bits: 64 name: \"{}\" driver_version: \"13.0.0\" runtime_version: \"13.0.0\" "
      "compile_time_toolkit_version: \"13.0.0\" dnn_version: \"9.10.0\" }} platform_name: \"CUDA\" "
      "dnn_version_info {{ major: 9 minor: 10 }} device_description_str: \"{}\"",
      g->shared_core, g->cores, g->cores_fpus, g->bandwidth, g->l2, g->clock, g->memory, g->shared_block, g->major,
      g->major >= 9 ? "ACCELERATED_FEATURES" : "NONE", g->capability, g->name, g->name);
}

}  // namespace tessera::plan
