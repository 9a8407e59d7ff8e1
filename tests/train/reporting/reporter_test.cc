#include "train/reporting/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "store/temp_dir.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Four steps of 12 examples in 10 seconds, one of them spent waiting, then one step in 4.
TEST(Reporter, CountsExamplesASecond) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), /*cores=*/2);
  reporter.start(0);
  const auto start = std::chrono::steady_clock::now();
  reporter.begin();
  reporter.waited(1);
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  reporter.step(4, metrics, start + std::chrono::seconds(10), true, {});
  reporter.write(4, metrics, {});
  reporter.step(5, metrics, start + std::chrono::seconds(14), true, {});
  reporter.write(5, metrics, {});
  reporter.writer().flush();
  const auto lines = testing::json_lines(dir / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NEAR(lines[0]["img/sec"], 4.8, 0.05);
  EXPECT_NEAR(lines[0]["img/sec/core"], 2.4, 0.05);
  EXPECT_NEAR(lines[0]["input_wait"], 0.1, 0.01);
  EXPECT_NEAR(lines[1]["img/sec"], 3, 0.01) << "since the line before";
  EXPECT_EQ(lines[1]["input_wait"], 0.0);
  EXPECT_EQ(lines[1]["examples_seen"], 60);
  EXPECT_DOUBLE_EQ(lines[1]["epoch"], 1.0);
  EXPECT_NEAR(lines[0]["z/secs/input"], 0.25, 1e-9) << "of each step";
  EXPECT_NEAR(lines[0]["z/secs/step"], 9.0 / 4, 0.01);
  EXPECT_NEAR(lines[1]["z/secs/step"], 4, 0.01);
  EXPECT_DOUBLE_EQ(lines[0]["progress"], 4.0 / 12);
  EXPECT_GT(lines[0]["y/hostmem/total"], lines[0]["y/hostmem/resident"]);
  const LoopTime::Total all = reporter.loop_time()->get();
  EXPECT_EQ(all.step, 5);
  EXPECT_NEAR(all.seconds, 14, 0.01) << "for the other processes";
  EXPECT_EQ(all.waited, 1);
}

TEST(Reporter, TellsWhoOfSeveralProcessesWaits) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  std::optional<monitor::SlowestProcess> news = monitor::SlowestProcess{3, "host-b", 0.41, 0.02};
  reporter.watch([&] { return std::exchange(news, std::nullopt); });
  reporter.begin();
  for (const int64_t step : {1, 2}) reporter.write(step, {}, {});
  news = monitor::SlowestProcess{1, "host-a", 0.03, 0.37, monitor::Wait::kPeers};
  reporter.write(3, {}, {});
  reporter.writer().flush();
  const auto lines = testing::json_lines(dir / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["y/processes/slowest"], 3);
  EXPECT_EQ(lines[0]["y/processes/input_wait_most"], 0.41);
  EXPECT_EQ(lines[0]["y/processes/input_wait_others"], 0.02);
  EXPECT_FALSE(lines[1].contains("y/processes/slowest")) << "there is no news of them";
  EXPECT_EQ(lines[2]["y/processes/slowest"], 1);
  EXPECT_EQ(lines[2]["y/processes/peer_wait_least"], 0.03);
  EXPECT_EQ(lines[2]["y/processes/peer_wait_others"], 0.37);
  EXPECT_FALSE(lines[2].contains("y/processes/input_wait_most"));
}

TEST(Reporter, TellsWhatStepsWaitedForOtherProcesses) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  reporter.begin();
  const auto step = [&](int64_t number) {
    reporter.step(number, {{"training_loss", 1}}, std::chrono::steady_clock::now(), false, {});
  };
  step(1);
  EXPECT_FALSE(reporter.loop_time()->get().for_peers) << "nobody tells it";
  double waited = 5;
  reporter.watch_peers([&] { return waited; });
  waited += 2;
  step(2);
  EXPECT_EQ(reporter.loop_time()->get().for_peers, 2) << "the start is not in it";
  {
    const Reporter::Pause pause(reporter);
    waited += 10;
  }
  waited += 1;
  step(3);
  EXPECT_EQ(reporter.loop_time()->get().for_peers, 3) << "an evaluation is not in it";
}

// Intervals of ten steps, after a first step that takes a minute: what is left settles, and one slow interval moves it by a part.
TEST(Pace, IsSmoothAndKnowsNoWarmUp) {
  Pace pace;
  pace.known(1, 60);
  EXPECT_EQ(pace.seconds_per_step(), 0) << "not known yet";
  pace.end_interval();
  int64_t step = 1;
  const auto interval = [&](double seconds) {
    for (int i = 1; i <= 10; ++i) pace.known(++step, seconds * i);
    pace.end_interval();
    return pace.seconds_per_step();
  };
  EXPECT_NEAR(interval(1), 1, 1e-9);
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(interval(1), 1, 1e-9);
  EXPECT_NEAR(interval(2), 1.2, 0.01);
  double last = 0;
  for (int i = 0; i < 15; ++i) last = interval(2);
  EXPECT_NEAR(last, 2, 0.05);
}

// A start that goes on has its first step within an interval.
TEST(Pace, LeavesTheFirstStepOfAnIntervalOut) {
  Pace pace;
  pace.known(101, 60);
  pace.known(102, 61);
  EXPECT_NEAR(pace.seconds_per_step(), 1, 1e-9);
  pace.known(103, 64);
  EXPECT_NEAR(pace.seconds_per_step(), 2, 1e-9);
}

TEST(Reporter, TellsTheTimeThatIsLeftSmoothly) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  reporter.begin();
  const auto start = std::chrono::steady_clock::now();
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  const auto said = [&](int64_t step, int64_t seconds) {
    ::testing::internal::CaptureStderr();
    reporter.step(step, metrics, start + std::chrono::seconds(seconds), true, {});
    reporter.write(step, metrics, {});
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(1, 600), Not(HasSubstr("ETA"))) << "warm-up";
  EXPECT_THAT(said(2, 700), HasSubstr("ETA 16:40")) << "ten steps of 100 seconds";
  EXPECT_THAT(said(3, 1000), HasSubstr("ETA 31:40")) << "not of 300: (0.8 x 100 + 300) / 1.8 each";
}

TEST(Reporter, TellsEverySchedule) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section(
      {"optimizer.schedules=['head/.* = cosine(1e-2, warmup=4 steps)', 'pos_embed = none', 'head/.* = 1']"}));
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  reporter.begin();
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  reporter.write(2, metrics, {});
  const auto line = testing::json_lines(dir / "metrics.jsonl").at(0);
  EXPECT_DOUBLE_EQ(line["lr/head/.*"], 5e-3) << "the second step of a warm-up of four";
  EXPECT_FALSE(line.contains("lr/pos_embed"));
}

// A line without a step of its own, or without time since the one before, has no speed.
TEST(Reporter, TellsNoSpeedWhereNoTimeWasMeasured) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  reporter.begin();
  const auto start = std::chrono::steady_clock::now();
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  reporter.write(1, metrics, {});
  ::testing::internal::CaptureStderr();
  reporter.step(2, metrics, start - std::chrono::seconds(1), true, {});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("img/s")));
  reporter.write(2, metrics, {});
  reporter.step(3, metrics, start + std::chrono::seconds(4), true, {});
  reporter.write(3, metrics, {});
  const auto lines = testing::json_lines(dir / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(lines[i].contains("img/sec") || lines[i].contains("img/sec/core")) << lines[i];
    EXPECT_EQ(lines[i]["input_wait"], 0.0);
  }
  EXPECT_TRUE(lines[2].contains("img/sec"));
}

// An alert is a warning, once, and not again when the run goes on.
TEST(Reporter, TellsAlertsOnce) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  const auto said = [&](int64_t from, int64_t to) {
    ::testing::internal::CaptureStderr();
    Reporter reporter(recipe, dir.path(), 1);
    state::Progress progress;
    progress.step = from;
    from == 0 ? reporter.start(0) : reporter.resume(progress);
    reporter.begin();
    for (int64_t step = from + 1; step <= to; ++step) {
      const float loss = step > 40 ? 9 : 3 - 0.03f * static_cast<float>(step);
      reporter.write(
          step, state::StepMetrics{{"training_loss", loss}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 1}},
          {});
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(0, 45), HasSubstr("warning: the training loss jumped to 9 at step 42, from about 2.1; if it does not"));
  EXPECT_EQ(said(45, 50), "");
  EXPECT_THAT(said(40, 50), HasSubstr("jumped to 9 at step 42")) << "of steps that are done again";
}

// On the console prec@5 of five classes or fewer is left out, and the first evaluation is not the best.
TEST(Reporter, TellsEvaluations) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  const int64_t classes = recipe.model->input().classes;
  ASSERT_LE(classes, 5);
  const Scores scores{{{"prec@1", true, 0.5}, {"prec@5", true, 1}, {"loss", false, 0.25}}, 10};
  ::testing::internal::CaptureStderr();
  reporter.evaluated("val", 3, scores, {});
  reporter.evaluated("val", 6, scores, 0.25);
  reporter.evaluated("val", 9, scores, 0.75);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "  val  step 3  top1 50  loss 0.25\n"
            "  val  step 6  top1 50 (+25) best  loss 0.25\n"
            "  val  step 9  top1 50 (-25)  loss 0.25\n");
  ::testing::internal::CaptureStderr();
  reporter.evaluated("val", 12, {{{"prec@1", true, 0.5}, {"cohen_kappa", true, 0.75}}, 10}, {});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "  val  step 12  top1 50  cohen_kappa 0.75\n") << "it is no share";
}

// A finished run that goes on: its last line came after its last save. What a line of a later step tells is lost.
TEST(Reporter, CountsASaveThatTheLastLineTellsOf) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  monitor::MetricWriter(dir.path()).write(2, {{"uptime", 50.0}});
  const auto times_of = [&](int64_t step) {
    state::Progress progress;
    progress.step = step;
    progress.seconds = 20;
    progress.times.started = 1;
    Reporter reporter(recipe, dir.path(), 1);
    reporter.resume(progress);
    return std::pair(reporter.times(), reporter.uptime());
  };
  const auto [ended, uptime] = times_of(2);
  EXPECT_EQ(ended.save, 30);
  EXPECT_EQ(ended.wasted, 0);
  EXPECT_GE(uptime, 50) << "it goes on where the last line stopped";
  const state::RunTimes killed = times_of(1).first;
  EXPECT_EQ(killed.save, 0);
  EXPECT_EQ(killed.wasted, 30);
}

// The other way to learn of it, from run.json: not where a line told of it.
TEST(Reporter, CountsTheSaveOfAStopOnce) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  monitor::MetricWriter(dir.path()).write(2, {{"uptime", 10.0}});
  const auto save_of = [&](double seconds) {
    state::Progress progress;
    progress.step = 2;
    progress.seconds = seconds;
    progress.times.started = 1;
    Reporter reporter(recipe, dir.path(), 1);
    reporter.resume(progress, /*last_save=*/5);
    EXPECT_GE(reporter.uptime(), seconds + (seconds > 10 ? 5 : 0));
    return reporter.times().save;
  };
  EXPECT_EQ(save_of(20), 5);
  EXPECT_EQ(save_of(9), 1) << "of the line";
}

// What is timed stands in the next line, as a mean, and once.
TEST(Reporter, TellsWhatPhasesTook) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start(0);
  reporter.begin();
  for (int i = 0; i < 2; ++i) const Reporter::Timed timed(reporter, &state::RunTimes::save, "save");
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  reporter.write(1, metrics, {});
  reporter.write(2, metrics, {});
  const auto lines = testing::json_lines(dir / "metrics.jsonl");
  EXPECT_TRUE(lines.at(0).contains("z/secs/save"));
  EXPECT_FALSE(lines.at(1).contains("z/secs/save"));
  double all = 0;
  for (const auto& [key, value] : lines[1].items()) {
    if (key == "goodput" || key.starts_with("badput/")) all += value.get<double>();
  }
  EXPECT_NEAR(all, 1, 1e-9);
  EXPECT_GT(lines[1]["badput/save"], 0);
}

}  // namespace
}  // namespace tessera::train
