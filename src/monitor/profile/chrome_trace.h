#pragma once
// Profiles as Chrome's trace events, which Perfetto and chrome://tracing open.

#include <string>
#include <string_view>
#include <vector>

#include "monitor/profile/profile.h"
#include "monitor/profile/xspace.h"

namespace tessera::profile {

// {"traceEvents": […]}: the threads of this program, and the lines of the plugin's planes. Times in microseconds, from the begin
// of the recording on.
std::string to_chrome_trace(const Profile& profile, const std::vector<DevicePlane>& device);

// As gzip writes it.
std::string gzip(std::string_view text);

}  // namespace tessera::profile
