#pragma once
// The device of a run, and batches on it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"

namespace tessera::train {

struct DeviceOptions {
  pjrt::Platform platform = pjrt::Platform::kCpu;
  std::string plugin;   // --plugin: a file, or a directory that has one
  int64_t devices = 1;  // more than one is a usage Error: programs are for one device
  pjrt::ExecutableCache cache = pjrt::ExecutableCache::standard();
};

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options);

// A batch on its way to the device. The host's rows are given back to their loader once the device has read them: at the latest
// when this is destroyed, which waits for that.
class DeviceBatch {
 public:
  // `with_mask`: for evaluation.
  DeviceBatch(const pjrt::Client& client, data::Batch batch, int64_t height, int64_t width, bool with_mask);
  ~DeviceBatch();
  DeviceBatch(DeviceBatch&&) noexcept;
  DeviceBatch& operator=(DeviceBatch&&) = delete;

  // images, labels and, for evaluation, mask: a program's last arguments, in order.
  std::vector<pjrt::Buffer>& arguments() { return arguments_; }
  // Sum of the host's mask.
  double mask_sum() const { return mask_sum_; }

 private:
  void release() noexcept;
  std::vector<pjrt::Buffer> arguments_;
  std::vector<pjrt::Event> uploads_;
  std::unique_ptr<data::Batch> batch_;
  double mask_sum_ = 0;
};

}  // namespace tessera::train
