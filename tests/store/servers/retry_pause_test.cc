#include "store/servers/retry_pause.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tessera::store {
namespace {

using std::chrono::milliseconds;

TEST(RetryPause, GrowsAndIsAnotherOnEachHost) {
  EXPECT_EQ(retry_pause(1, 0), milliseconds(100));
  EXPECT_EQ(retry_pause(1, 0.5), milliseconds(75));
  EXPECT_EQ(retry_pause(2, 0), milliseconds(300));
  EXPECT_EQ(retry_pause(4, 0), milliseconds(2700));
  EXPECT_GE(retry_pause(4, 0.999), milliseconds(1350));
}

}  // namespace
}  // namespace tessera::store
