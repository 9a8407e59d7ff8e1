#include "pjrt/plugin/profiler.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/paths.h"
#include "support/run_graph.h"

namespace tessera::pjrt {
namespace {

int live_things(int fake) {
  void* library = dlopen(testing::fake_plugin_path(fake).c_str(), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<int (*)()>(dlsym(library, "fake_profiler_things"))();
}

TEST(Profiler, GivesWhatThePluginRecorded) {
  auto profiler = Profiler::start(Plugin::load(testing::fake_plugin_path(5)));
  ASSERT_TRUE(profiler);
  EXPECT_EQ(live_things(5), 2);
  EXPECT_EQ(profiler->stop(), "what was recorded");
  profiler.reset();
  EXPECT_EQ(live_things(5), 0);
}

TEST(Profiler, OneThatIsDroppedEndsItsRecording) {
  { const auto profiler = Profiler::start(Plugin::load(testing::fake_plugin_path(5))); }
  EXPECT_EQ(live_things(5), 0);
}

TEST(Profiler, OneThatDoesNotStartSaysWhy) {
  try {
    Profiler::start(Plugin::load(testing::fake_plugin_path(6)));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "PLUGIN_Profiler_Start: somebody else profiles");
    EXPECT_EQ(error.code(), Exit::kDevice);
  }
  EXPECT_EQ(live_things(6), 0);
}

TEST(Profiler, TheCpuPluginHasNone) { EXPECT_FALSE(Profiler::start(testing::cpu_client()->shared_plugin())); }

}  // namespace
}  // namespace tessera::pjrt
