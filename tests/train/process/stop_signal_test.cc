#include "train/process/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <initializer_list>

namespace tessera::train {
namespace {

// Exits with 7 where the run is still asked to save.
[[noreturn]] void receive(std::initializer_list<int> signals) {
  StopSignal stop;
  stop.hold();
  for (const int number : signals) raise(number);
  _exit(stop.requested() ? 7 : 8);
}

TEST(StopSignalDeathTest, ASecondCtrlCDoesNotWaitForTheSave) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(receive({SIGINT}), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(receive({SIGINT, SIGINT}), ::testing::ExitedWithCode(130), "");
}

// A scheduler may repeat itself, and a terminal that closes sends several.
TEST(StopSignalDeathTest, OthersAreRepeatedWithoutHarm) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(receive({SIGTERM, SIGTERM}), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(receive({SIGINT, SIGTERM}), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(receive({SIGHUP, SIGINT}), ::testing::ExitedWithCode(7), "");
}

// What the run still writes is small, and its exit code says that it is done.
[[noreturn]] void receive_after_the_end(std::initializer_list<int> signals) {
  StopSignal().hold();
  for (const int number : signals) raise(number);
  _exit(0);
}

TEST(StopSignalDeathTest, OneThatComesAfterTheEndChangesNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(receive_after_the_end({SIGINT}), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(receive_after_the_end({SIGTERM, SIGHUP}), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(receive_after_the_end({SIGINT, SIGINT}), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace tessera::train
