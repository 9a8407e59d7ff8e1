#pragma once
// The devices of a run, and batches on them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader/loader.h"
#include "objectives/batch.h"
#include "pjrt/accelerators.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "state/device_arrays.h"

namespace tessera::train {

struct DeviceOptions {
  pjrt::Platform platform = pjrt::Platform::kCpu;
  // Where nobody named the platform: why it is this one, and what is missing for a faster one (pjrt/accelerators.h). open_client()
  // says so once.
  pjrt::PlatformChoice choice;
  std::string plugin;  // --plugin: a file, or a directory that has one
  // --devices: how many to use. The CPU plugin makes that many virtual ones, 1 when not given; other platforms have what they
  // have, and use all of it when not given.
  std::optional<int64_t> devices;
  pjrt::ExecutableCache cache = pjrt::ExecutableCache::standard();
};

// Throws a usage Error when the machine has fewer devices than asked for.
std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options);
// The number that a run uses: the one asked for, or all of the client's.
int64_t devices_of(const DeviceOptions& options, const pjrt::Client& client);

// A batch on its way to the devices of a mesh, each of which gets its rows. The host's rows are given back to their loader once
// the device has read them: at the latest when this is destroyed, which waits for that.
class DeviceBatch {
 public:
  // The images that `pp` made, and of the rest what `inputs` names.
  DeviceBatch(const pjrt::Client& client, const mesh::Mesh& mesh, data::Batch batch, const data::Pp& pp,
              const objectives::Inputs& inputs);
  ~DeviceBatch();
  DeviceBatch(DeviceBatch&&) noexcept;
  DeviceBatch& operator=(DeviceBatch&&) = delete;

  // For each device its images, the inputs and what training augments with: a program's last arguments.
  state::DeviceArrays& arguments() { return arguments_; }

 private:
  void release() noexcept;
  state::DeviceArrays arguments_;
  std::vector<pjrt::Event> uploads_;
  std::unique_ptr<data::Batch> batch_;
};

}  // namespace tessera::train
