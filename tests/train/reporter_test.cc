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
}

}  // namespace
}  // namespace tessera::train
