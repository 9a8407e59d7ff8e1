#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hwy/nanobenchmark.h>

namespace {

// Programs start without measuring the clock: the library, too, finds our function (base/system/highway_timer.cc).
TEST(HighwayTimer, IsNotMeasuredAtTheStart) {
  const void* for_all = ::dlsym(RTLD_DEFAULT, "_ZN3hwy8platform15TimerResolutionEv");
  EXPECT_EQ(for_all, reinterpret_cast<const void*>(&hwy::platform::TimerResolution));
  EXPECT_EQ(hwy::platform::TimerResolution(), 1U);
}

}  // namespace
