// Which checkpoint is kept as the best (checkpoint.best).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "monitor/metrics.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::small_run;

using Steps = std::vector<int64_t>;

std::vector<std::string> plus(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

Steps steps_in(const std::string& workdir) {
  Steps steps;
  for (const auto& entry : store::local_files().list(small_run().path(workdir) + "/checkpoints")) {
    const auto name = checkpoint::parse_directory_name(entry.name);
    if (name && !name->writer) steps.push_back(name->step);
  }
  return steps;
}

std::map<int64_t, double> column(const std::string& workdir, const std::string& name) {
  std::map<int64_t, double> values;
  for (const monitor::MetricRow& row : monitor::read_metrics(small_run().path(workdir) + "/metrics.jsonl")) {
    if (row.values.contains(name)) values[row.step] = row.values.at(name);
  }
  return values;
}

int64_t least(const std::map<int64_t, double>& values) {
  return std::ranges::min_element(values, {}, [](const auto& entry) { return entry.second; })->first;
}

Steps best_and(int64_t best, Steps others) {
  if (std::ranges::find(others, best) == others.end()) others.insert(others.begin(), best);
  return others;
}

// The rate rises a thousandfold after eight steps: the loss rises too, and stays a number.
const std::vector<std::string> kBlowUp{"total=24 steps", "log=1 steps", "checkpoint.every=2 steps",
                                       "optimizer.lr=step(3e-3, milestones=[8 steps], factors=[1000])"};

TEST(BestCheckpoint, SurvivesALossThatRises) {
  const TrainResult result = small_run().train("risen", kBlowUp);
  EXPECT_EQ(result.exit, Exit::kDone);
  std::map<int64_t, double> losses = column("risen", "training_loss");
  std::erase_if(losses, [](const auto& entry) { return entry.first % 2 != 0; });
  const int64_t best = least(losses);
  ASSERT_LE(best, 10) << "the run was to get worse";
  EXPECT_GT(losses.at(24), 2 * losses.at(best));
  EXPECT_EQ(steps_in("risen"), (Steps{best, 22, 24}));
  EXPECT_THAT(result.best, AllOf(HasSubstr(checkpoint::step_directory(best)), HasSubstr("training_loss")));
  small_run().train("lost", plus(kBlowUp, {"checkpoint.best=none"}));
  EXPECT_EQ(steps_in("lost"), (Steps{22, 24}));
}

TEST(BestCheckpoint, IsTheSameAfterARestartAnywhere) {
  small_run().train("all", plus(kBlowUp, {"checkpoint.keep=99"}));
  small_run().train("direct", kBlowUp);
  for (const int64_t k : {2, 8, 20}) {
    const std::string name = fmt::format("restarted{}", k);
    fs::copy(small_run().path("all"), small_run().path(name), fs::copy_options::recursive);
    for (int64_t later = k + 2; later <= 24; later += 2) {
      fs::remove_all(fmt::format("{}/checkpoints/step_{:09}", small_run().path(name), later));
    }
    EXPECT_EQ(small_run().train(name, kBlowUp).exit, Exit::kDone);
    EXPECT_EQ(steps_in(name), steps_in("direct"));
    const auto state = [&](const std::string& workdir) {
      nlohmann::json json =
          nlohmann::json::parse(checkpoint::load(small_run().path(workdir) + "/checkpoints/step_000000024").state_json);
      json.erase("seconds");
      return json;
    };
    EXPECT_EQ(state(name), state("direct"));
    EXPECT_EQ(testing::slurp(small_run().path(name) + "/checkpoints/step_000000024/state.safetensors"),
              testing::slurp(small_run().path("direct") + "/checkpoints/step_000000024/state.safetensors"));
  }
}

const std::vector<std::string> kByScore{"checkpoint.best=val/loss", "checkpoint.every=0 steps", "checkpoint.keep=1",
                                        "optimizer.lr=step(3e-3, milestones=[8 steps], factors=[1000])"};

TEST(BestCheckpoint, ByAScoreIsSavedAtOnce) {
  EXPECT_EQ(small_run().train("scored", kByScore).exit, Exit::kDone);
  const int64_t best = least(column("scored", "val/loss"));
  ASSERT_LT(best, 12);
  EXPECT_NE(best % 4, 0) << "the evaluation and not checkpoint.every is to save it";
  EXPECT_EQ(steps_in("scored"), best_and(best, {12}));
}

// A directory in the place of a file makes one save fail.
TEST(BestCheckpoint, OneThatCouldNotBeSavedIsNone) {
  small_run().train("measure", kByScore);
  std::map<int64_t, double> losses = column("measure", "val/loss");
  const int64_t best = least(losses);
  losses.erase(best);
  losses.erase(12);
  const std::string temporary =
      fmt::format("{}/checkpoints/{}.tmp-{}", small_run().path("unsaved"), checkpoint::step_directory(best), getpid());
  fs::create_directories(small_run().path("unsaved"));
  testing::spill(small_run().path("unsaved") + "/recipe.toml", read_recipe(small_run().section(kByScore)).text);
  fs::create_directories(temporary + "/state.safetensors");
  EXPECT_EQ(small_run().train("unsaved", kByScore).exit, Exit::kData);
  EXPECT_EQ(steps_in("unsaved"), best_and(least(losses), {12}));
}

TEST(BestCheckpoint, OfUnknownScoresIsRefused) {
  try {
    read_recipe(small_run().section({"checkpoint.best=val/lass"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("checkpoint.best"), HasSubstr("did you mean `val/loss`")));
  }
  EXPECT_TRUE(read_recipe(small_run().section({"checkpoint.best=val/prec@1"})).best->share);
  EXPECT_FALSE(read_recipe(small_run().section({"checkpoint.best=val/loss"})).best->share);
  EXPECT_FALSE(read_recipe(small_run().section({"checkpoint.best=none"})).best);
}

}  // namespace
}  // namespace tessera::train
