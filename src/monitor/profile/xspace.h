#pragma once
// Profiles as XSpace messages (tsl/profiler/protobuf/xplane.proto), which TensorBoard's profile tab reads, as xprof does.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/profile/profile.h"

namespace tessera::profile {

// The threads of this program as the plane "/host:CPU", the time it was taken, and the plugin's planes. All times are from the
// begin of the recording on. Throws a data Error where the plugin's bytes are no XSpace.
std::string to_xspace(const Profile& profile);

// What a plane of a plugin says.
struct DeviceEvent {
  std::string name;
  int64_t begin = 0, duration = 0;  // nanoseconds, from the begin of the recording on
};
struct DeviceLine {
  std::string name;
  std::vector<DeviceEvent> events;
};
struct DevicePlane {
  std::string name;
  std::vector<DeviceLine> lines;

  bool is_device() const { return name.starts_with("/device:"); }
};
// At most `most` events of all planes. Throws as to_xspace does.
std::vector<DevicePlane> read_device(const Profile& profile, int64_t most = 1'000'000);

}  // namespace tessera::profile
