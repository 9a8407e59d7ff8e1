// Processes whose loop stands still, by a clock that the tests set.

#include "train/process/hang_watch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/line_listener.h"
#include "train/process/loop_phases.h"
#include "train/process/standstill.h"

namespace tessera::train {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// A loop whose place the test sets.
struct PlayedLoop {
  LoopView view = {.phase = {}, .step = 5, .waited_for_others = 0, .file = {}};
  int64_t phases = 0;

  void enter(const char* phase, int64_t number = kNoNumber) {
    view.phase = SpanRecord{phase, ++phases, 0, number, SpanKind::kPhase};
  }
};

// One that is looked at every second.
struct LookedAt : PlayedLoop {
  explicit LookedAt(seconds patience) : still(patience) {}

  Standstill::Seen after(int64_t time, double for_others = 0) {
    Standstill::Seen seen;
    for (int64_t second = 0; second < time; ++second) {
      view.waited_for_others += for_others;
      if (view.file) view.file->seconds += 1;
      seen = still.look(view, now += seconds(1));
    }
    return seen;
  }
  Standstill still;
  Standstill::Clock::time_point now{};
};

TEST(Standstill, AWaitForInputOrDevicesIsAHangAfterSeconds) {
  for (const auto& [phase, in] :
       {std::pair{kWaitForInput, Standstill::In::kInput}, std::pair{kWaitForDevice, Standstill::In::kDevices},
        std::pair{kDispatch, Standstill::In::kDevices}, std::pair{kTransfer, Standstill::In::kDevices},
        std::pair{kWaitForTransfer, Standstill::In::kDevices}}) {
    SCOPED_TRACE(phase);
    LookedAt loop(seconds(300));
    loop.enter(phase);
    EXPECT_FALSE(loop.after(12).hangs);
    const Standstill::Seen seen = loop.after(1);
    EXPECT_TRUE(seen.hangs);
    EXPECT_FALSE(seen.too_long);
    EXPECT_EQ(seen.in, in);
    EXPECT_EQ(seen.seconds, 12);
    EXPECT_FALSE(loop.after(287).too_long);
    EXPECT_TRUE(loop.after(1).too_long);
    loop.enter(phase);
    EXPECT_FALSE(loop.after(1).hangs) << "it moved";
  }
}

TEST(Standstill, StepsThatAreSlowAsEverAreNone) {
  LookedAt loop(seconds(60));
  for (int step = 0; step < 3; ++step) {
    loop.enter(kWaitForDevice);
    EXPECT_EQ(loop.after(41).hangs, step == 0);  // nothing was known of the first
  }
  loop.enter(kWaitForDevice);
  EXPECT_FALSE(loop.after(200).hangs);
  EXPECT_TRUE(loop.after(1).too_long) << "five times as long, which is more than the patience";
  loop.enter(kWaitForInput);
  EXPECT_TRUE(loop.after(13).hangs) << "its input was never slow";
}

// Steps of many parts on CPUs, or batches of an evaluation.
TEST(Standstill, WhatIsLongFromTheFirstOneOnEndsNoProcess) {
  LookedAt loop(seconds(300));
  loop.view.step = 0;
  loop.enter(kDispatch);
  EXPECT_FALSE(loop.after(401).too_long);
  loop.view.step = 1;
  loop.enter(kDispatch);
  EXPECT_FALSE(loop.after(1200).too_long) << "as the first one, and three times as long";
  LookedAt evaluation(seconds(300));
  for (int64_t batch = 0; batch < 9; ++batch) {
    evaluation.enter(kEvaluationBatch, batch);
    EXPECT_FALSE(evaluation.after(401).too_long) << batch;
  }
}

// The devices were at work while the loop waited for its input, which is now in the cache.
TEST(Standstill, AWaitThatMovesToAnotherPhaseEndsNoProcess) {
  LookedAt loop(seconds(300));
  for (int step = 0; step < 3; ++step) {
    loop.enter(kWaitForInput);
    loop.after(250);
    loop.enter(kWaitForDevice);
    loop.after(2);
  }
  loop.enter(kWaitForDevice);
  EXPECT_FALSE(loop.after(400).too_long);
}

TEST(Standstill, HowLongASaveTookSaysNothingOfSteps) {
  LookedAt loop(seconds(300));
  loop.enter("save");
  loop.after(3600);
  loop.enter(kWaitForDevice);
  EXPECT_TRUE(loop.after(301).too_long);
}

TEST(Standstill, WhoWaitsForOthersDoesNotHang) {
  LookedAt loop(seconds(20));
  loop.enter(kWaitForDevice);
  EXPECT_FALSE(loop.after(3600, 1).hangs);
  EXPECT_EQ(loop.still.in_phase(), 3599);
  EXPECT_FALSE(loop.after(11).hangs);
  EXPECT_TRUE(loop.after(1).hangs) << "the others came, and it is not done";
}

// A debugger, SIGSTOP or a machine that sleeps.
TEST(Standstill, AProcessThatWasStoppedDidNotHang) {
  LookedAt loop(seconds(20));
  loop.enter(kWaitForInput);
  loop.after(3);
  loop.now += std::chrono::hours(10);
  EXPECT_FALSE(loop.after(4).hangs);
  EXPECT_TRUE(loop.after(4).hangs);
}

TEST(Standstill, AFirstStepAndTheFirstBatchesOfAnEvaluationHaveTimeOfTheirOwn) {
  const auto expect_patient = [](LookedAt loop) {
    EXPECT_FALSE(loop.after(60).hangs);
    EXPECT_TRUE(loop.after(1).hangs);
    EXPECT_FALSE(loop.after(30 * 60 - 61).too_long);
    EXPECT_TRUE(loop.after(1).too_long);
  };
  LookedAt first(seconds(20));
  first.view.step = 0;
  for (const char* phase : {kWaitForInput, kDispatch, kWaitForDevice}) {
    first.enter(phase);
    expect_patient(first);
  }
  LookedAt evaluation(seconds(20));
  for (const char* phase : {kEvaluationInput, kEvaluationBatch}) {
    for (int64_t batch = 0; batch < 2; ++batch) {
      evaluation.enter(phase, batch);
      expect_patient(evaluation);
    }
    evaluation.enter(phase, 2);
    EXPECT_FALSE(evaluation.after(12).hangs);
    EXPECT_TRUE(evaluation.after(1).hangs);
  }
  LookedAt tuned(seconds(20));
  tuned.view.step = 0;
  tuned.enter(kDispatch);
  tuned.after(600);
  tuned.view.step = 1;
  tuned.enter(kDispatch);
  tuned.after(12);
  EXPECT_TRUE(tuned.after(1).hangs) << "how long the first one took says nothing of the others";
}

TEST(Standstill, SavesCompilationsAndScoresMayTakeAsLongAsTheyDo) {
  LookedAt loop(seconds(20));
  const auto expect_told_alone = [&] {
    EXPECT_FALSE(loop.after(1800).hangs);
    const Standstill::Seen seen = loop.after(1);
    EXPECT_TRUE(seen.hangs);
    EXPECT_EQ(seen.in, Standstill::In::kOther);
    EXPECT_FALSE(loop.after(100'000).too_long);
  };
  for (const char* phase : {"save", "start", "eval/val", "step", "write metrics"}) {
    SCOPED_TRACE(phase);
    loop.enter(phase);
    expect_told_alone();
  }
  loop.view.phase.reset();
  expect_told_alone();
}

TEST(Standstill, AFileThatDoesNotComeIsAHangThere) {
  LookedAt loop(seconds(300));
  loop.enter("save");
  loop.after(900);
  loop.view.file = SlowFileCall{"writing", "run/state.safetensors", 1, 7};
  EXPECT_FALSE(loop.after(58).hangs);
  const Standstill::Seen seen = loop.after(1);
  EXPECT_TRUE(seen.hangs);
  EXPECT_EQ(seen.in, Standstill::In::kFile);
  EXPECT_FALSE(loop.after(5 * 300 - 61).too_long) << "a disk that is slow writes 1 GiB in less";
  EXPECT_TRUE(loop.after(1).too_long);
  loop.view.file = SlowFileCall{"writing", "run/state.safetensors", 400, 8};
  loop.enter("save");
  EXPECT_FALSE(loop.after(30).hangs) << "the loop moved meanwhile";
}

TEST(Standstill, WithoutAPatienceNothingIsTooLong) {
  LookedAt loop(seconds(0));
  loop.enter(kWaitForInput);
  const Standstill::Seen seen = loop.after(100'000);
  EXPECT_TRUE(seen.hangs);
  EXPECT_FALSE(seen.too_long);
}

// ---- several processes ----

using ToldValues = std::map<std::string, std::string>;

class ToldMembers final : public group::Members {
 public:
  ToldMembers(ToldValues& values, int64_t process, int64_t count)
      : Members({process, count, "nowhere:1", "run"}), values_(values) {}

  void put(const std::string& key, const std::string& value) override {
    ++puts;
    if (away) throw group::transient_error("the coordinator is away");
    values_[key] = value;
  }
  std::string get(const std::string& key, std::chrono::milliseconds) override { return find(key).value(); }
  std::optional<std::string> find(const std::string& key) override {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::map<std::string, std::string> find_all(const std::string& folder) override {
    ++asked;
    EXPECT_EQ(folder, "hangs/");
    return values_;
  }
  void barrier(const std::string&, std::chrono::milliseconds) override {}
  void leave() override {}
  void fail(Exit) noexcept override {}

  int64_t puts = 0, asked = 0;
  bool away = false;

 private:
  ToldValues& values_;
};

// One process of several.
struct PlayedProcess : PlayedLoop {
  PlayedProcess(ToldValues& values, int64_t process, int64_t count, bool joint, seconds timeout)
      : members(std::make_shared<ToldMembers>(values, process, count)),
        watch(std::make_unique<HangWatch>(
            members,
            WatchedLoop{[this] { return view; },
                        [](double time) { return "no batch for " + std::to_string(std::lround(time)) + " s: `a\n.png`"; },
                        joint},
            timeout, [this](int64_t of, const std::string& what) { kept.emplace_back(of, what); },
            [this](const std::string& why) { ended = why; }, std::nullopt)) {}

  const std::shared_ptr<ToldMembers> members;
  std::vector<std::pair<int64_t, std::string>> kept;
  std::string ended;
  std::unique_ptr<HangWatch> watch;
};

class HangWatchTest : public ::testing::Test {
 protected:
  HangWatchTest() {
    set_line_listener([this](const std::string& line) { lines_.push_back(line); });
  }
  ~HangWatchTest() override { set_line_listener(nullptr); }

  void begin(int64_t count, bool joint, seconds timeout = seconds(300)) {
    for (int64_t process = 0; process < count; ++process) {
      all_.push_back(std::make_unique<PlayedProcess>(values_, process, count, joint, timeout));
      all_.back()->enter("start");
    }
    pass(1);
  }
  // Processes that have ended look no more.
  void pass(int64_t time) {
    for (int64_t second = 0; second < time; ++second) {
      now_ += seconds(1);
      for (const auto& one : all_) {
        if (one->ended.empty()) one->watch->look(now_);
      }
    }
  }
  int64_t asked() const {
    int64_t sum = 0;
    for (const auto& one : all_) sum += one->members->asked;
    return sum;
  }
  // On a plugin that sums over processes: all of them but one wait for it.
  void all_but(size_t one) {
    for (size_t process = 0; process < all_.size(); ++process) {
      if (process != one) all_[process]->enter(kWaitForDevice);
    }
  }

  ToldValues values_;
  std::vector<std::unique_ptr<PlayedProcess>> all_;
  std::vector<std::string> lines_;
  Standstill::Clock::time_point now_{};
};

// On CPUs a wait for others is known (Standstill), so that the others seem to stand in their devices.
TEST_F(HangWatchTest, TheFirstProcessSaysWhoHangsWithin15Seconds) {
  begin(4, /*joint=*/true);
  all_[2]->enter(kWaitForInput);
  all_but(2);
  pass(14);
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("warning: process 2 on "));
  EXPECT_THAT(lines_[0], HasSubstr("hangs: no batch for 12 s: `a\\n.png`; where that lasts, it ends (--hang-timeout 300)"));
  EXPECT_THAT(all_[0]->kept, ElementsAre(Pair(2, "no batch for 12 s: `a\\n.png`")));
  pass(60);
  EXPECT_THAT(lines_, SizeIs(1)) << "once";
  for (const auto& one : all_) EXPECT_LE(one->members->puts, 2) << "the coordinator keeps everything";

  all_[2]->enter(kDispatch);
  pass(1);
  all_but(2);
  pass(1);
  ASSERT_THAT(lines_, SizeIs(2));
  EXPECT_THAT(lines_[1], ::testing::AllOf(HasSubstr("process 2 on "), HasSubstr("goes on")));
  EXPECT_THAT(all_[0]->kept, ElementsAre(Pair(2, "no batch for 12 s: `a\\n.png`"), Pair(2, "")));
  for (const auto& one : all_) EXPECT_EQ(one->ended, "");
}

TEST_F(HangWatchTest, AsSoonOfManyProcesses) {
  begin(1000, /*joint=*/true);
  all_[999]->enter(kWaitForInput);
  all_but(999);
  pass(14);
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("warning: process 999 on "));
}

TEST_F(HangWatchTest, TheFirstProcessTellsOfItselfToo) {
  begin(2, /*joint=*/false);
  all_[0]->enter(kEvaluationInput, 7);
  pass(14);
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("hangs: no batch of an evaluation for 12 s"));
  all_[0]->watch.reset();
  EXPECT_THAT(all_[0]->kept, ElementsAre(Pair(0, "no batch of an evaluation for 12 s")))
      << "the connections to a process that hung break at its end: what was said of it stays";
}

TEST_F(HangWatchTest, NobodyIsAskedWhileStepsAreDone) {
  begin(4, /*joint=*/true);
  for (int step = 0; step < 100; ++step) {
    for (const auto& one : all_) one->enter(kWaitForDevice);
    pass(6);
  }
  EXPECT_EQ(asked(), 0);
  for (const auto& one : all_) EXPECT_EQ(one->members->puts, 1) << "what an earlier start told under the same name is over";
}

TEST_F(HangWatchTest, WhoHangsByItselfEndsAndTheOthersWaitForThat) {
  begin(3, /*joint=*/true, seconds(20));
  all_[1]->enter(kWaitForInput);
  all_but(1);
  pass(20);
  EXPECT_EQ(all_[1]->ended, "");
  pass(1);
  EXPECT_THAT(all_[1]->ended, HasSubstr("hangs: no batch for 20 s"));
  pass(1000);
  EXPECT_EQ(all_[0]->ended, "") << "the coordinator says that process 1 is gone";
  EXPECT_EQ(all_[2]->ended, "");
}

// One compiles, or saves to a slow bucket; the others wait for it in a collective of the plugin.
TEST_F(HangWatchTest, NobodyEndsWhileOneIsBusy) {
  for (const size_t busy : {0, 2}) {
    SCOPED_TRACE(busy);
    all_.clear();
    lines_.clear();
    begin(3, /*joint=*/true, seconds(20));
    all_[busy]->enter("save");
    all_but(busy);
    pass(1799);
    EXPECT_THAT(lines_, IsEmpty());
    pass(7000);
    for (const auto& one : all_) EXPECT_EQ(one->ended, "");
    ASSERT_THAT(lines_, SizeIs(1));
    EXPECT_THAT(lines_[0], HasSubstr(fmt::format("process {} on ", busy)));
    EXPECT_THAT(lines_[0], EndsWith("hangs: the loop has not moved for 1800 s (save)"));
  }
}

TEST_F(HangWatchTest, ACollectiveThatDoesNotEndEndsTheFirstProcess) {
  begin(3, /*joint=*/true, seconds(60));
  for (const auto& one : all_) one->enter(kWaitForDevice);
  pass(15);
  ASSERT_THAT(lines_, SizeIs(1));
  EXPECT_THAT(lines_[0], HasSubstr("all 3 processes wait for their devices, and none of them for its input or a file"));
  EXPECT_THAT(lines_[0], HasSubstr("no answer of the devices for 12 s (wait for the device)"));
  pass(44);
  for (const auto& one : all_) EXPECT_EQ(one->ended, "");
  pass(3);
  EXPECT_THAT(all_[0]->ended, HasSubstr("all 3 processes wait for their devices; process 0 on "));
  for (const size_t process : {1, 2}) {
    EXPECT_EQ(all_[process]->ended, "") << "the coordinator says that process 0 is gone";
    EXPECT_EQ(all_[process]->members->asked, 0) << "many that ask would leave it no time for leases";
  }
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(HangWatchTest, ADeviceOfOneProcessAloneIsItsOwn) {
  begin(2, /*joint=*/false, seconds(20));
  all_[1]->enter(kWaitForDevice);
  pass(21);
  EXPECT_THAT(all_[1]->ended, HasSubstr("hangs: no answer of the devices for 20 s (wait for the device)"));
  EXPECT_EQ(all_[0]->ended, "");
}

TEST_F(HangWatchTest, ACoordinatorThatIsAwayIsToldLater) {
  begin(2, /*joint=*/true);
  all_[1]->members->away = true;
  all_[1]->enter(kWaitForInput);
  all_but(1);
  pass(20);
  EXPECT_THAT(lines_, IsEmpty());
  all_[1]->members->away = false;
  pass(2);
  EXPECT_THAT(lines_, SizeIs(1));
}

TEST_F(HangWatchTest, WhatNobodyWroteIsPassedOver) {
  begin(2, /*joint=*/true, seconds(20));
  for (const char* odd : {"?", "\n\n", "by itself", "by itself\na\nb\nc", "for ever\na\nb"}) {
    values_["hangs/1"] = odd;
    all_[0]->enter(kWaitForDevice);
    pass(30);
  }
  EXPECT_EQ(all_[0]->ended, "");
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace tessera::train
