#pragma once
// Sums and rows over all devices of a run: the virtual devices of this process, which meet in a call, and through them those of
// the other processes. Device d of process p is number p * devices + d.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/group/exchange.h"

namespace tessera::host {

struct SummedArray {
  std::span<const float> in;
  std::span<float> out;  // as long; does not overlap it
};

// A call that each device makes on a thread of its own, which waits for the others.
struct DeviceCall {
  int64_t run = 0, channel = 0;         // tell executions of programs apart, and the calls of one
  int64_t device = 0, devices = 1;      // of those that meet
  uint32_t exchange_channel = 0;        // this device's in this call, the same in all processes
  group::Exchange* exchange = nullptr;  // between processes; null: there is one
};

// What group::Exchange says, for all devices; sums are added up in pairs (cluster/group/pairwise_sum.h). A failure of one of the devices
// is thrown in all of them.
void sum_over_devices(const DeviceCall& call, const std::vector<SummedArray>& arrays);
void gather_over_devices(const DeviceCall& call, std::span<const std::byte> in, std::span<std::byte> out);

}  // namespace tessera::host
