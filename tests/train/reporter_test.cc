#include "train/reporter.h"

#include <gtest/gtest.h>

#include "store/temp_dir.h"
#include "train/json_lines.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

// Four steps of 12 examples in 10 seconds, one of them spent waiting, then one step in 4.
TEST(Reporter, CountsExamplesASecond) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), /*cores=*/2);
  reporter.start();
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
}

TEST(Reporter, TellsEverySchedule) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section(
      {"optimizer.schedules=['head/.* = cosine(1e-2, warmup=4 steps)', 'pos_embed = none', 'head/.* = 1']"}));
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start();
  reporter.begin();
  const state::StepMetrics metrics = {{"training_loss", 1}, {"l2_grads", 1}, {"l2_params", 1}, {"l2_updates", 1}, {"lr", 0.5}};
  reporter.write(2, metrics, {});
  const auto line = testing::json_lines(dir / "metrics.jsonl").at(0);
  EXPECT_DOUBLE_EQ(line["lr/head/.*"], 5e-3) << "the second step of a warm-up of four";
  EXPECT_FALSE(line.contains("lr/pos_embed"));
}

// What is timed stands in the next line, as a mean, and once.
TEST(Reporter, TellsWhatPhasesTook) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section());
  const testing::TempDir dir;
  Reporter reporter(recipe, dir.path(), 1);
  reporter.start();
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
