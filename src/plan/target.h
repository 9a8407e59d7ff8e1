#pragma once
// What a plan is for: hardware that need not be there, by name.
//
//   v3:8x8  v5e:16x16  v5p:16x20x28   a TPU slice, by libtpu; several of them over the data-centre network with `slices`
//   h200:16x8  b200:1x8               hosts x GPUs, by the CUDA plugin
//   cpu:8                             virtual CPU devices
//   here                              the devices at hand

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/chip.h"
#include "plan/compiled.h"
#include "train/process/device.h"
#include "train/step/step.h"

namespace tessera::plan {

class Target {
 public:
  virtual ~Target() = default;
  const std::string& name() const { return name_; }
  const std::string& device_kind() const { return kind_; }
  int64_t devices() const { return devices_; }
  int64_t groups() const { return groups_; }  // slices or hosts
  bool gpus() const { return gpus_; }         // of NVIDIA
  // The figures of its chip; null where there are none (a CPU).
  const pjrt::Chip* chip() const { return chip_; }
  // Memory of one device; 0 where it is not known.
  double memory_bytes() const { return memory_; }
  // The memory spaces of its programs' arrays that lie in that memory.
  const std::vector<int64_t>& main_memory() const { return spaces_; }
  // Or what the cache has of an earlier plan.
  virtual Compiled compile(const train::Program& program) const = 0;

 protected:
  std::string name_, kind_;
  int64_t devices_ = 1, groups_ = 1;
  bool gpus_ = false;
  const pjrt::Chip* chip_ = nullptr;
  double memory_ = 0;
  std::vector<int64_t> spaces_ = {0};
};

// Throws a usage Error for a name that is not known (those that are are listed), and a device Error when the plugin for it is
// missing (with the command that fetches it).
std::unique_ptr<Target> open_target(const std::string& name, int64_t slices, const train::DeviceOptions& device);

// Larger ones of the same kind, smallest first; none for CPUs.
std::vector<std::string> larger_topologies(const std::string& name);

}  // namespace tessera::plan
