#pragma once
// What a machine can train on, found without loading a plugin.

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt/plugin/plugin.h"

namespace tessera::pjrt {

// How many TPU chips this machine has on its PCI bus, by the ids that JAX knows (jax/_src/hardware_utils.py); 0 where the bus
// can't be read. `bus` is a parameter for tests.
int tpu_chips(const std::string& bus = "/sys/bus/pci/devices");
// How many NVIDIA GPUs this process may open: nvidia0, nvidia1, … in `devices`.
int nvidia_gpus(const std::string& devices = "/dev");

struct PlatformChoice {
  Platform platform = Platform::kCpu;
  std::string why;      // "this machine has 4 TPU chips", "this machine has no TPU or GPU"; empty where `missing` says it
  std::string missing;  // of a CPU: which accelerator stays unused because its plugin is missing, and what to do
};
// TPU, then GPU, then CPU: the first that is there and has a plugin.
PlatformChoice choose_platform(int chips, int gpus, const PluginPlaces& places);

// The GPUs or TPU chips that this process may use: numbers, or the names that `visible` has, which is CUDA_VISIBLE_DEVICES or
// TPU_VISIBLE_CHIPS (null: not set). As in CUDA, those behind one that is empty or negative don't count. `count`: nvidia_gpus() or
// tpu_chips().
std::vector<std::string> visible_accelerators(const char* visible, int count);
// Those of one of several processes of a machine, which have equal runs of them, as places in the list of `gpus`. A usage Error where
// they can't be divided.
struct GpuRange {
  int64_t begin = 0, end = 0;
};
GpuRange gpus_of_process(int64_t gpus, int64_t process, int64_t processes);

}  // namespace tessera::pjrt
