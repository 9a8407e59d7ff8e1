// When a run is profiled, and that it changes nothing.

#include "train/reporting/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "base/system/spans.h"
#include "support/paths.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;

std::vector<std::string> profiles_of(const std::string& workdir) {
  std::vector<std::string> names;
  const std::string directory = profile::profiles_directory(workdir);
  if (!fs::exists(directory)) return names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().string());
  std::ranges::sort(names);
  return names;
}

// A loop whose steps take a given time.
class Loop {
 public:
  explicit Loop(Profiles& profiles) : profiles_(profiles) {}
  void steps(int count, std::chrono::milliseconds time) {
    for (int i = 0; i < count; ++i) {
      profiles_.before(++step_);
      now_ += time;
      profiles_.settled(step_, now_);
    }
  }

 private:
  Profiles& profiles_;
  int64_t step_ = 0;
  Profiles::Clock::time_point now_ = Profiles::Clock::now();
};

TEST(SlowStep, IsThreeTimesTheMedianAndATenthOfASecondLonger) {
  std::vector<double> before(50, 0.2);
  before[0] = 9;
  EXPECT_FALSE(is_slow_step(0.59, before));
  EXPECT_TRUE(is_slow_step(0.61, before));
  EXPECT_FALSE(is_slow_step(0.61, {before.begin(), before.begin() + 49}));
  EXPECT_FALSE(is_slow_step(0.09, std::vector<double>(50, 0.01)));
  EXPECT_TRUE(is_slow_step(0.12, std::vector<double>(50, 0.01)));
}

TEST(Profiles, AfterASlowStepTheNextOnesAreLookedAtOnceAStart) {
  const testing::TempDir workdir;
  for (int start = 0; start < 5; ++start) {
    ::testing::internal::CaptureStderr();
    {
      Profiles profiles(workdir.path(), {});
      Loop loop(profiles);
      loop.steps(60, 100ms);
      loop.steps(1, 500ms);
      loop.steps(20, 100ms);
      loop.steps(1, 900ms);
      loop.steps(20, 100ms);
    }
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(profiles_of(workdir.path()).size(), static_cast<size_t>(std::min(start + 1, 3)));
    const char* note = "step 61 took 0.5 s, 5.0 times the median of those before it; the next 10 steps are profiled";
    if (start < 3) {
      EXPECT_THAT(told, HasSubstr(note));
      EXPECT_THAT(told, HasSubstr("profile (after step 61, which took 0.5 s"));
    } else {
      EXPECT_EQ(told, "");
    }
    EXPECT_THAT(told, Not(HasSubstr("step 82")));
  }
  for (const std::string& name : profiles_of(workdir.path())) EXPECT_THAT(name, HasSubstr("_slow"));
}

// The profiler of this plugin fails as it starts.
TEST(Profiles, ThePluginsProfilerIsLeftOutWhereThatIsSaid) {
  const testing::TempDir workdir;
  const auto plugin = pjrt::Plugin::load(testing::fake_plugin_path(6));
  const auto said = [&](const char* why) {
    ::testing::internal::CaptureStderr();
    Profiles profiles(workdir.path(), {});
    profiles.watch(plugin, false);
    if (why) profiles.leave_device_out(why);
    std::promise<ProfileOutcome> asked;
    profiles.ask(0.001, [&](const ProfileOutcome& outcome) { asked.set_value(outcome); });
    EXPECT_EQ(asked.get_future().get().failure, "");
    profiles.end();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(nullptr), HasSubstr("somebody else profiles; the profile has what the host does"));
  EXPECT_THAT(said("it ends runs"),
              AllOf(HasSubstr("the profile has what the host does: it ends runs"), Not(HasSubstr("somebody else profiles"))));
}

TEST(Profiles, NoStepOfTheWarmUpAndNoPauseIsSlow) {
  const testing::TempDir workdir;
  Profiles profiles(workdir.path(), {});
  Loop loop(profiles);
  loop.steps(1, 100ms);
  loop.steps(1, 9000ms);
  loop.steps(60, 100ms);
  profiles.interrupted();
  loop.steps(1, 9000ms);  // an evaluation came in between
  loop.steps(60, 100ms);
  profiles.end();
  EXPECT_TRUE(profiles_of(workdir.path()).empty());
}

// As RunPictures::before_step() tells of them: every other step waits for histograms, and takes longer than any limit.
TEST(Profiles, StepsThatWaitForHistogramsAreNeitherSlowNorUsual) {
  const testing::TempDir workdir;
  ::testing::internal::CaptureStderr();
  {
    Profiles profiles(workdir.path(), {});
    Loop loop(profiles);
    for (int i = 0; i < 60; ++i) {
      profiles.interrupted();
      loop.steps(1, 900ms);
      loop.steps(1, 100ms);
    }
    EXPECT_TRUE(profiles_of(workdir.path()).empty());
    loop.steps(1, 500ms);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("step 121 took 0.5 s, 5.0 times the median"));
  EXPECT_EQ(profiles_of(workdir.path()).size(), 1u) << "of step 121";
}

TEST(Profiles, WithNoneASlowStepIsLeftAlone) {
  const testing::TempDir workdir;
  Profiles profiles(workdir.path(), {.slow_steps = false});
  Loop loop(profiles);
  loop.steps(60, 100ms);
  loop.steps(30, 900ms);
  profiles.end();
  EXPECT_TRUE(profiles_of(workdir.path()).empty());
}

TEST(Profiles, WhatIsAskedForIsTakenOneByOneAndCutByTheEnd) {
  const testing::TempDir workdir;
  Profiles profiles(workdir.path(), {});
  std::promise<ProfileOutcome> first, second, third;
  profiles.ask(500, [&](const ProfileOutcome& outcome) { first.set_value(outcome); });
  profiles.ask(500, [&](const ProfileOutcome& outcome) { second.set_value(outcome); });
  EXPECT_EQ(second.get_future().get().failure, "the run is being profiled already");
  profiles.end();
  const ProfileOutcome outcome = first.get_future().get();
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(fs::exists(outcome.files.xplane));
  EXPECT_THAT(outcome.files.table, HasSubstr("(500 s, as asked)"));
  profiles.ask(500, [&](const ProfileOutcome& after) { third.set_value(after); });
  EXPECT_EQ(third.get_future().get().failure, "the run has ended");
}

TEST(Profiles, OneThatCannotBeWrittenIsAFailureAndNothingMore) {
  const testing::TempDir directory;
  testing::spill(directory / "file", "");
  Profiles profiles(directory / "file", {});
  std::promise<ProfileOutcome> asked;
  profiles.ask(0.001, [&](const ProfileOutcome& outcome) { asked.set_value(outcome); });
  EXPECT_THAT(asked.get_future().get().failure, HasSubstr("Not a directory"));
}

TEST(Profiles, NothingIsMadeInThePlaceOfAWorkdirThatWasMoved) {
  const testing::TempDir directory;
  fs::create_directory(directory / "run");
  Profiles profiles(directory / "run", {});
  fs::rename(directory / "run", directory / "elsewhere");
  std::promise<ProfileOutcome> asked;
  profiles.ask(0.001, [&](const ProfileOutcome& outcome) { asked.set_value(outcome); });
  EXPECT_THAT(asked.get_future().get().failure, HasSubstr("was moved or removed meanwhile"));
  EXPECT_FALSE(fs::exists(directory / "run"));
}

TEST(Profiles, StepsOfTheRecipeAreRecordedAndChangeNoNumbers) {
  ASSERT_EQ(small_run().train("plain", {"monitor.profile=none"}).exit, Exit::kDone);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(small_run().train("profiled", {"monitor.profile=steps 2-6"}).exit, Exit::kDone);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(small_run().weights_of("profiled", 12), small_run().weights_of("plain", 12));
  EXPECT_TRUE(profiles_of(small_run().path("plain")).empty());
  const std::vector<std::string> found = profiles_of(small_run().path("profiled"));
  ASSERT_EQ(found.size(), 1u);
  const std::string table = testing::slurp(found[0] + "/summary.txt");
  EXPECT_THAT(table, HasSubstr("(steps 2-6)"));
  EXPECT_THAT(table, HasSubstr("5 whole steps"));
  for (const char* name :
       {"wait for the device", "dispatch", "wait for input", "transfer", "wait for transfer", "decode", "execute"}) {
    EXPECT_THAT(table, HasSubstr(name));
    EXPECT_THAT(told, HasSubstr(name));
  }
}

// On a CPU the step itself runs on the processors. The system samples their time, and may take no sample of the five short steps
// above; and a checkpoint may be on its way still when they end.
TEST(Profiles, OnACpuAProfileHasTheProcessorTimeOfAStep) {
  ASSERT_EQ(small_run().train("sampled", {"total=300 steps", "monitor.profile=steps 2-300"}).exit, Exit::kDone);
  const std::vector<std::string> found = profiles_of(small_run().path("sampled"));
  ASSERT_EQ(found.size(), 1u);
  const std::string table = testing::slurp(found[0] + "/summary.txt");
  EXPECT_THAT(table, HasSubstr("processor time of a step: "));
  EXPECT_THAT(table, HasSubstr("\nkernels of the host's processor "));
  EXPECT_THAT(table, HasSubstr("\n  dense_backward "));
  EXPECT_THAT(table, HasSubstr("\ncheckpoints "));
  EXPECT_THAT(table, HasSubstr("\n  write and sync "));
}

TEST(Profiles, TheKeyMayChangeFromStartToStart) {
  ASSERT_EQ(small_run().train("profiled_later", {"total=4 steps"}).exit, Exit::kDone);
  ASSERT_EQ(small_run().train("profiled_later", {"total=8 steps", "monitor.profile=step 6"}).exit, Exit::kDone);
  ASSERT_EQ(profiles_of(small_run().path("profiled_later")).size(), 1u);
  EXPECT_THAT(testing::slurp(profiles_of(small_run().path("profiled_later"))[0] + "/summary.txt"), HasSubstr("(step 6)"));
}

TEST(Profiles, AKeyThatIsNoneOfItsFormsIsRefused) {
  for (const char* value : {"steps 6-2", "steps 0-2", "always", "steps", "2-6", "steps 99999999999999999999"}) {
    EXPECT_THAT(small_run().failure("bad", {std::string("monitor.profile=") + value}, Exit::kUsage), HasSubstr(value));
  }
}

}  // namespace
}  // namespace tessera::train
