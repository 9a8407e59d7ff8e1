// When a launch looks for hosts that a run goes without. Hosts are commands here, and time is what the test says.

#include "cluster/launch/returning_hosts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/system/temporary_directory.h"

namespace tessera::launch {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Back = std::vector<const RemoteHost*>;

class ReturningHostsTest : public ::testing::Test {
 protected:
  // No look begins before that time has passed.
  void expect_rest(std::chrono::seconds time) {
    EXPECT_THAT(hosts_.look(now_ + time - seconds(1)), IsEmpty());
    EXPECT_FALSE(hosts_.looking()) << time.count() << " s";
  }
  // One begins then; what it found, when it is over.
  Back look_after(std::chrono::seconds time) {
    expect_rest(time);
    now_ += time;
    Back back = hosts_.look(now_);
    EXPECT_TRUE(hosts_.looking()) << time.count() << " s";
    while (hosts_.looking()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      back = hosts_.look(now_);
    }
    return back;
  }
  void expect_settling(std::chrono::seconds time) { EXPECT_THAT(look_after(time), IsEmpty()); }

  const TemporaryDirectory folder_{"tessera-test"};
  const RemoteHost gone_{"a", {"sh", "-c", "exit 255; "}};
  ReturningHosts hosts_{folder_.path()};
  ReturningHosts::Clock::time_point now_;
};

TEST_F(ReturningHostsTest, AreLookedForLessAndLessOften) {
  const RemoteHost host{"b", {"sh", "-c", fmt::format("[ -e '{}/up' ] || exit 255; ", folder_.path())}};
  hosts_.begin({&gone_, &host}, 2, now_);
  EXPECT_THAT(look_after(minutes(5)), IsEmpty());
  for (const int64_t pause : {30, 60, 120}) EXPECT_THAT(look_after(seconds(pause)), IsEmpty());
  { std::ofstream(folder_.path() + "/up") << "up"; }
  EXPECT_THAT(look_after(seconds(240)), ElementsAre(&host));
  for (int i = 0; i < 2; ++i) EXPECT_THAT(look_after(seconds(300)), ElementsAre(&host));
  hosts_.begin({}, 4, now_);
  now_ += minutes(100);
  EXPECT_THAT(hosts_.look(now_), IsEmpty());
  EXPECT_FALSE(hosts_.looking());
}

TEST_F(ReturningHostsTest, HaveTheDirectoryOfTheRun) {
  const RemoteHost host{"b", {"sh", "-c", ""}};
  ReturningHosts elsewhere(folder_.path() + "/not mounted");
  elsewhere.begin({&host}, 2, now_);
  now_ += minutes(5);
  Back back = elsewhere.look(now_);
  EXPECT_TRUE(elsewhere.looking());
  while (elsewhere.looking()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    back = elsewhere.look(now_);
  }
  EXPECT_THAT(back, IsEmpty());
}

TEST_F(ReturningHostsTest, ThatDoNotAnswerHoldNothingUp) {
  const RemoteHost silent{"b", {"sh", "-c", "exec sleep 100000; "}};
  hosts_.begin({&silent}, 2, now_);
  now_ += minutes(5);
  EXPECT_THAT(hosts_.look(now_), IsEmpty());
  EXPECT_THAT(hosts_.look(now_ + minutes(1)), IsEmpty());
  EXPECT_TRUE(hosts_.looking());
  EXPECT_THAT(hosts_.look(now_ + minutes(1) + seconds(1)), IsEmpty());
  EXPECT_FALSE(hosts_.looking());
}

TEST_F(ReturningHostsTest, ThatAreLostAgainSoonWaitLonger) {
  const auto begin_without = [&] { hosts_.begin({&gone_}, 2, now_); };
  const auto take_in_for = [&](minutes time) {
    hosts_.take_in();
    hosts_.begin({}, 3, now_);
    now_ += time;
    begin_without();
  };
  begin_without();
  begin_without();
  expect_settling(minutes(5));
  take_in_for(minutes(59));
  begin_without();  // what else goes wrong counts no more
  expect_settling(minutes(10));
  hosts_.take_in();
  begin_without();  // it was not reached after all
  expect_settling(minutes(20));
  take_in_for(minutes(1));
  expect_settling(minutes(40));
  for (int i = 0; i < 2; ++i) {
    take_in_for(minutes(1));
    expect_settling(minutes(60));
  }
  take_in_for(minutes(60));
  expect_settling(minutes(5));
}

}  // namespace
}  // namespace tessera::launch
