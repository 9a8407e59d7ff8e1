#pragma once
// The devices of a run.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "pjrt/plugin/accelerators.h"

namespace tessera::train {

struct DeviceOptions {
  pjrt::Platform platform = pjrt::Platform::kCpu;
  // Where nobody named the platform: why it is this one, and what is missing for a faster one (pjrt/plugin/accelerators.h).
  // open_client() says so once.
  pjrt::PlatformChoice choice;
  std::string plugin;  // --plugin: a file, or a directory that has one
  // --devices: how many to use. The CPU plugin makes so many virtual devices, 1 when not given. Other platforms use all that
  // the machine has when not given.
  std::optional<int64_t> devices;
  pjrt::ExecutableCache cache = pjrt::ExecutableCache::standard();

  // Whether one mesh spans the devices of several processes. The CPU plugin has no collectives between processes, so that there each
  // has a mesh of its own, and our calls add up.
  bool spans_processes() const { return platform != pjrt::Platform::kCpu; }
};

// Throws a usage Error when the machine has fewer devices than asked for. `group`: of processes whose devices one client spans, each
// with all that it sees. Names the processes that have the TPU, before and where it can't be had. `proc` is a parameter for tests.
std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options, pjrt::ClientGroup group = {},
                                          const std::string& proc = "/proc");
// The number that a run uses: the one asked for, or all of the client's, also those of other processes.
int64_t devices_of(const DeviceOptions& options, const pjrt::Client& client);

}  // namespace tessera::train
