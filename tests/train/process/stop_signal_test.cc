#include "train/process/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>

#include "base/system/file_calls.h"
#include "train/process/stop_watch.h"

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
  ::signal(SIGINT, SIG_DFL);  // a shell ignores it for what it starts in the background
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

// Those that come at once may be one that is forwarded twice.
TEST(StopSignal, OneThatComesLaterIsARepetition) {
  StopSignal stop;
  stop.hold();
  raise(SIGTERM);
  raise(SIGTERM);
  EXPECT_FALSE(stop.repeated());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(stop.repeated());
  raise(SIGTERM);
  EXPECT_TRUE(stop.repeated());
}

// As the system itself sends it.
void raise_from_system(int number) {
  siginfo_t info{};
  info.si_signo = number;
  info.si_code = SI_KERNEL;
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, &info), 0);
}

// Beyond a limit of processor time (`ulimit -t`) it comes each second, and nobody is impatient.
TEST(StopSignal, TheSystemsOwnAreNoRepetition) {
  StopSignal stop;
  stop.hold();
  raise_from_system(SIGXCPU);
  EXPECT_TRUE(stop.requested());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  raise_from_system(SIGXCPU);
  EXPECT_FALSE(stop.repeated());
  raise(SIGTERM);
  EXPECT_FALSE(stop.repeated()) << "the first of somebody";
}

// A save whose file never comes, and a signal.
[[noreturn]] void stop_while_a_file_hangs(bool hangs) {
  StopSignal stop;
  stop.hold();
  StopWatch watch(stop, std::chrono::milliseconds(100));
  watch.set_saved(false);
  const std::string path = "run/state.safetensors";
  std::optional<FileCall> call;
  if (hangs) call.emplace("writing", path);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // not before there is a signal
  raise(SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(hangs ? 30 : 1));
  _exit(7);
}

// With a patience that this test does not outlive, and a short one.
[[noreturn]] void stop_soon(bool saved, bool repeated) {
  StopSignal stop;
  stop.hold();
  StopWatch watch(stop, std::chrono::hours(1), std::chrono::milliseconds(100));
  watch.set_saved(saved);
  const std::string path = "run/run.json";
  const FileCall call("writing", path);
  raise(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  if (repeated) raise(SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(repeated || saved ? 30 : 1));
  _exit(7);
}

TEST(StopWatchDeathTest, AFileThatDoesNotComeIsLeft) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      stop_while_a_file_hangs(true), ::testing::ExitedWithCode(3),
      "error: the run was stopped, and writing `run/state.safetensors` has taken [0-9]+ s so far: it ends without that file");
  EXPECT_EXIT(stop_while_a_file_hangs(false), ::testing::ExitedWithCode(7), "");
}

TEST(StopWatchDeathTest, NobodyWaitsLongWhereNothingCanBeLost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_soon(/*saved=*/true, /*repeated=*/false), ::testing::ExitedWithCode(75),
              "writing `run/run.json` has taken [0-9]+ s so far: it ends without that file, and no step is lost");
}

TEST(StopWatchDeathTest, AWaitIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      stop_soon(/*saved=*/false, /*repeated=*/false), ::testing::ExitedWithCode(7),
      "warning: the run was stopped and waits for a file: writing `run/run.json` has taken [0-9]+ s so far; if that goes "
      "on it ends without the file in 3600 s, and sooner after another signal");
}

TEST(StopWatchDeathTest, ASignalThatIsRepeatedWaitsNoLonger) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_soon(/*saved=*/false, /*repeated=*/false), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(stop_soon(/*saved=*/false, /*repeated=*/true), ::testing::ExitedWithCode(3), "it ends without that file\nhelp");
}

}  // namespace
}  // namespace tessera::train
