#pragma once
// What the makers say of their chips: the figures behind an estimate. All of one PJRT device, which is half a chip on v2, v3,
// v4 (by default) and TPU7x.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::pjrt {

struct Chip {
  const char* name;      // "v5e"
  double bf16_flops;     // a second, dense
  double f32_flops;      // of f32 products at the compiler's default precision: bf16 passes on a TPU, TF32 on a GPU
  double hbm_bytes;      // memory
  double hbm_bandwidth;  // bytes a second
  // Bytes a second that a device can send: to devices of the same slice (TPU) or host (GPU), and to those beyond.
  double link_bandwidth, network_bandwidth;
  const char* source;
};

// Nothing for a name that is not known.
const Chip* find_chip(const std::string& name);
// By what a plugin calls a device (pjrt::Device::kind): "TPU v5 lite", "NVIDIA H200"; nothing for others, as "cpu".
const Chip* chip_of_device(const std::string& kind);

}  // namespace tessera::pjrt
