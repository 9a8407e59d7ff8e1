#include "pjrt/chip.h"

namespace tessera::pjrt {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kGiB = 1024.0 * 1024 * 1024;

constexpr const char* kCloud = "docs.cloud.google.com/tpu/docs; links: jax-ml.github.io/scaling-book; network assumed";
constexpr const char* kNvidia = "NVIDIA data sheets; network: one 400 Gb/s adapter a GPU, assumed";

// Per device: figures of a chip divided by its devices.
constexpr Chip kChips[] = {
    {"v2", 22.5 * kTera, 22.5 * kTera, 8 * kGiB, 350 * kGiga, 124 * kGiga, 3.1 * kGiga, kCloud},
    {"v3", 61.5 * kTera, 61.5 * kTera, 16 * kGiB, 450 * kGiga, 140 * kGiga, 3.1 * kGiga, kCloud},
    {"v4", 137.5 * kTera, 137.5 * kTera, 16 * kGiB, 600 * kGiga, 135 * kGiga, 3.1 * kGiga, kCloud},
    {"v5e", 197 * kTera, 197 * kTera, 16 * kGiB, 819 * kGiga, 200 * kGiga, 3.1 * kGiga, kCloud},
    {"v5p", 459 * kTera, 459 * kTera, 95 * kGiB, 2765 * kGiga, 600 * kGiga, 6.25 * kGiga, kCloud},
    {"v6e", 918 * kTera, 918 * kTera, 32 * kGiB, 1638 * kGiga, 400 * kGiga, 12.5 * kGiga, kCloud},
    {"tpu7x", 1153.5 * kTera, 1153.5 * kTera, 96 * kGiB, 3690 * kGiga, 300 * kGiga, 12.5 * kGiga, kCloud},
    {"a100", 312 * kTera, 156 * kTera, 80e9, 2039 * kGiga, 300 * kGiga, 25 * kGiga, kNvidia},
    {"h100", 989 * kTera, 494 * kTera, 80e9, 3350 * kGiga, 450 * kGiga, 50 * kGiga, kNvidia},
    {"h200", 989 * kTera, 494 * kTera, 141e9, 4800 * kGiga, 450 * kGiga, 50 * kGiga, kNvidia},
    {"b200", 2250 * kTera, 1125 * kTera, 180e9, 8000 * kGiga, 900 * kGiga, 50 * kGiga, kNvidia},
};

// How the kinds of devices begin that libtpu and the CUDA plugin name; longer ones before those that they begin with.
struct KindOfDevice {
  const char* begins;
  const char* chip;
};
constexpr KindOfDevice kKinds[] = {
    {"TPU v2", "v2"},        {"TPU v3", "v3"},        {"TPU v4", "v4"},        {"TPU v5 lite", "v5e"},  {"TPU v5e", "v5e"},
    {"TPU v5", "v5p"},       {"TPU v6 lite", "v6e"},  {"TPU v6e", "v6e"},      {"TPU7x", "tpu7x"},      {"TPU v7x", "tpu7x"},
    {"NVIDIA A100", "a100"}, {"NVIDIA H100", "h100"}, {"NVIDIA H200", "h200"}, {"NVIDIA B200", "b200"},
};

}  // namespace

const Chip* find_chip(const std::string& name) {
  for (const Chip& chip : kChips) {
    if (name == chip.name) return &chip;
  }
  return nullptr;
}

const Chip* chip_of_device(const std::string& kind) {
  if (kind.starts_with("TPU v4 lite")) return nullptr;  // a chip for inference
  for (const KindOfDevice& known : kKinds) {
    if (kind.starts_with(known.begins)) return find_chip(known.chip);
  }
  return nullptr;
}

}  // namespace tessera::pjrt
