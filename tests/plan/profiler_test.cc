// The profilers of libtpu and of the CUDA plugin, on a machine without their chips: they begin and end a recording, and what they
// give is an XSpace without events of a device.

#include "pjrt/plugin/profiler.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "monitor/profile/xspace.h"
#include "support/paths.h"

namespace tessera::pjrt {
namespace {

class PluginProfiler : public ::testing::TestWithParam<Platform> {};

TEST_P(PluginProfiler, GivesAnXspace) {
  PluginPlaces places;
  places.environments = {testing::source_path(".deps/plan")};
  const auto plugin = Plugin::load(find_plugin(GetParam(), places));
  for (int time = 0; time < 2; ++time) {  // one recording after the other
    auto profiler = Profiler::start(plugin);
    ASSERT_TRUE(profiler) << "the plugin has no profiler";
    profile::Profile profile;
    profile.device = profiler->stop();
    for (const profile::DevicePlane& plane : profile::read_device(profile)) {
      if (!plane.is_device()) continue;
      for (const profile::DeviceLine& line : plane.lines) EXPECT_TRUE(line.events.empty()) << plane.name << " " << line.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PluginProfiler, ::testing::Values(Platform::kTpu, Platform::kCuda),
                         [](const auto& test) { return std::string(platform_name(test.param)); });

}  // namespace
}  // namespace tessera::pjrt
