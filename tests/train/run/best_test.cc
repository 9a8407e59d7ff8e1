// Which checkpoint is kept as the best (checkpoint.best), what a run needs on the disk, and what to do when it diverged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "monitor/metrics.h"
#include "state/model_source.h"
#include "train/loop/best_checkpoint.h"
#include "train/loop/divergence.h"
#include "train/small_run.h"
#include "train/workdir/disk_space.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Of these tests alone, whose workdirs have names that others use too.
testing::SmallRun& small_run() {
  static testing::SmallRun run;
  return run;
}

// What <workdir>/best leads to; 0 where it is no link.
int64_t best_link(const std::string& workdir) {
  std::error_code error;
  const fs::path target = fs::read_symlink(small_run().path(workdir) + "/best", error);
  if (error || target.parent_path() != "checkpoints") return 0;
  const auto name = checkpoint::parse_directory_name(target.filename().string());
  return name ? name->step : 0;
}

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
  EXPECT_EQ(best_link("risen"), best);
  EXPECT_EQ(state::load_model(small_run().path("risen") + "/best").path, small_run().path("risen") + "/best");
  EXPECT_GT(losses.at(24), 2 * losses.at(best));
  EXPECT_EQ(steps_in("risen"), (Steps{best, 22, 24}));
  EXPECT_THAT(result.best, AllOf(HasSubstr(checkpoint::step_directory(best)), HasSubstr("training_loss")));
  small_run().train("lost", plus(kBlowUp, {"checkpoint.best=none"}));
  EXPECT_EQ(steps_in("lost"), (Steps{22, 24}));
  EXPECT_FALSE(fs::is_symlink(small_run().path("lost") + "/best"));
}

TEST(BestCheckpoint, ItsLinkIsLeftAloneWhereItIsNone) {
  small_run().train("own_best", {"checkpoint.every=4 steps"});
  ASSERT_NE(best_link("own_best"), 0);
  fs::remove(small_run().path("own_best") + "/best");
  testing::spill(small_run().path("own_best") + "/best", "my notes");
  EXPECT_EQ(small_run().train("own_best", {"checkpoint.every=4 steps", "total=16 steps"}).exit, Exit::kDone);
  EXPECT_EQ(testing::slurp(small_run().path("own_best") + "/best"), "my notes");
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
      for (const char* by_the_clock : {"seconds", "times"}) json.erase(by_the_clock);
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
  testing::spill(small_run().path("unsaved") + "/recipe.toml", recipe::read_recipe(small_run().section(kByScore)).text);
  fs::create_directories(temporary + "/state.safetensors");
  EXPECT_EQ(small_run().train("unsaved", kByScore).exit, Exit::kData);
  EXPECT_EQ(steps_in("unsaved"), best_and(least(losses), {12}));
}

TEST(BestCheckpoint, OfUnknownScoresIsRefused) {
  try {
    recipe::read_recipe(small_run().section({"checkpoint.best=val/lass"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("checkpoint.best"), HasSubstr("did you mean `val/loss`")));
  }
  EXPECT_TRUE(recipe::read_recipe(small_run().section({"checkpoint.best=val/prec@1"})).best->share);
  EXPECT_FALSE(recipe::read_recipe(small_run().section({"checkpoint.best=val/loss"})).best->share);
  EXPECT_FALSE(recipe::read_recipe(small_run().section({"checkpoint.best=none"})).best);
}

TEST(DiskSpace, CountsWhatIsThereAtOnce) {
  const auto need = [](const std::vector<std::string>& overrides) {
    const recipe::Recipe recipe =
        recipe::read_recipe(small_run().section(plus({"total=1000 steps", "checkpoint.every=10 steps"}, overrides)));
    return disk_need(recipe, recipe::recipe_layout(recipe));
  };
  EXPECT_EQ(need({"checkpoint.best=none"}).checkpoints, 3);
  EXPECT_EQ(need({}).checkpoints, 4);
  EXPECT_EQ(need({"checkpoint.keep_every=100 steps"}).checkpoints, 14);
  EXPECT_EQ(need({"checkpoint.keep_best=5"}).checkpoints, 8);
  EXPECT_EQ(need({"checkpoint.every=0 steps"}).checkpoints, 1);
  EXPECT_GT(need({}).metrics_bytes, need({"log=100 steps"}).metrics_bytes);
  small_run().train("sized", {"total=4 steps", "optimizer.lr=3e-3"});
  const auto written = checkpoint::load(small_run().path("sized") + "/checkpoints/step_000000004");
  EXPECT_NEAR(static_cast<double>(need({}).checkpoint_bytes), static_cast<double>(written.files[0].bytes().size()), 20000);
}

TEST(DiskSpace, IsWarnedOfWhereItIsShort) {
  const DiskNeed need{int64_t{1} << 30, 3, int64_t{1} << 20};
  EXPECT_FALSE(space_warning(need, "run", 0, 4e9));
  EXPECT_FALSE(space_warning(need, "run", 2.2e9, 2e9)) << "what is there is replaced";
  EXPECT_THAT(*space_warning(need, "run", 0, 2.5e9),
              AllOf(HasSubstr("3 checkpoints of 1.00 GiB"), HasSubstr("in `run`"), HasSubstr("2.33 GiB are free")));
  EXPECT_TRUE(space_warning({int64_t{1} << 40, int64_t{1} << 40, 0}, small_run().path("")));
  EXPECT_FALSE(space_warning({1, 1, 0}, small_run().path("")));
}

TEST(DiskSpace, FilesThatMayNotGrowAreWarnedOf) {
  const DiskNeed need{int64_t{1} << 20, 3, int64_t{1} << 21, int64_t{1} << 20};
  EXPECT_FALSE(file_size_warning(need, int64_t{1} << 21));
  EXPECT_THAT(*file_size_warning(need, int64_t{3} << 19),
              AllOf(HasSubstr("1.50 MiB at most (`ulimit -f`)"), HasSubstr("metrics.jsonl will have about 2.00 MiB"),
                    HasSubstr("later saves will fail"), HasSubstr("fewer lines (log)")));
  EXPECT_NO_THROW(expect_files_fit(need, int64_t{1} << 20));
  try {
    expect_files_fit(need, 1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kDevice);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("`ulimit -f`"), HasSubstr("a file of it has 1.00 MiB"), HasSubstr("raise the limit")));
  }
}

// Files of 1 GiB, however large the state is, and a file for each larger array.
TEST(DiskSpace, ALargeStateIsSeveralFiles) {
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section());
  state::StateLayout layout;
  for (int i = 0; i < 9; ++i) {
    layout.entries.push_back({fmt::format("params/{}", i), {DType::kF32, {int64_t{100} << 20}}, {}});
  }
  const DiskNeed need = disk_need(recipe, layout);
  EXPECT_EQ(need.checkpoint_bytes, int64_t{3600} << 20);
  EXPECT_EQ(need.file_bytes, int64_t{800} << 20);
  layout.entries.push_back({"params/9", {DType::kF32, {int64_t{1} << 29}}, {}});
  EXPECT_EQ(disk_need(recipe, layout).file_bytes, int64_t{2} << 30);
}

TEST(DiskSpace, IsToldBeforeTheRun) {
  ::testing::internal::CaptureStderr();
  std::atomic<bool> over{false};
  std::thread stopper([&] {
    while (!over && testing::slurp(small_run().path("huge") + "/metrics.jsonl").empty()) std::this_thread::yield();
    if (!over) kill(getpid(), SIGTERM);
  });
  const TrainResult result = small_run().train(
      "huge", {"total=2000000000 steps", "optimizer.lr=3e-3", "checkpoint.keep_every=1 steps", "checkpoint.every=1000 steps"});
  over = true;
  stopper.join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("when the disk is full, saves fail"));
  EXPECT_EQ(result.exit, Exit::kPreempted);
}

// A step whose save failed is no best one: the one before it is again, as long as it is there.
TEST(BestCheckpointKeeper, FallsBackWhereASaveFailed) {
  const std::optional<recipe::BestMetric> metric = recipe::BestMetric{"val/prec@1", /*share=*/true};
  state::Progress progress;
  Steps there;
  BestCheckpointKeeper keeper(metric, 1, progress,
                              {[&](int64_t step) { return std::ranges::find(there, step) != there.end(); }, [] {}});
  const auto takes = [&](int64_t step, double score) {
    progress.step = step;
    Scores scores;
    scores.values.push_back({"prec@1", /*share=*/true, score});
    return keeper.take({{"val", scores}});
  };
  const auto best = [&] {
    keeper.forget_missing();
    return progress.best_checkpoint ? progress.best_checkpoint->step : -1;
  };
  EXPECT_FALSE(takes(0, 1)) << "the start is none";
  EXPECT_TRUE(takes(1, 0.5));
  there = {1};
  EXPECT_FALSE(takes(2, 0.4));
  EXPECT_TRUE(takes(3, 0.6));
  EXPECT_EQ(best(), 1) << "3 was not saved";
  EXPECT_TRUE(takes(4, 0.55)) << "better than what is there";
  there = {1, 4};
  EXPECT_EQ(best(), 4);
  there = {1};
  EXPECT_EQ(best(), 1);
  there = {};
  EXPECT_EQ(best(), -1);
}

TEST(BestCheckpoint, SeveralAreRanked) {
  const std::optional<recipe::BestMetric> metric = recipe::BestMetric{"val/loss", /*share=*/false};
  state::Progress progress;
  Steps there;
  BestCheckpointKeeper keeper(metric, 3, progress,
                              {[&](int64_t step) { return std::ranges::find(there, step) != there.end(); }, [] {}});
  const auto takes = [&](int64_t step, double loss, bool saved = true) {
    progress.step = step;
    Scores scores;
    scores.values.push_back({"loss", /*share=*/false, loss});
    const bool taken = keeper.take({{"val", scores}});
    if (taken && saved) there.push_back(step);
    return taken;
  };
  EXPECT_TRUE(takes(1, 0.5));
  EXPECT_TRUE(takes(2, 0.7));
  EXPECT_TRUE(takes(3, 0.6));
  EXPECT_EQ(keeper.steps(), (Steps{1, 3, 2}));
  EXPECT_FALSE(takes(4, 0.8));
  EXPECT_FALSE(takes(5, 0.7)) << "no better than the one that is there";
  EXPECT_TRUE(takes(6, 0.4, /*saved=*/false));
  EXPECT_EQ(keeper.steps(), (Steps{6, 1, 3}));
  keeper.forget_missing();
  EXPECT_EQ(keeper.steps(), (Steps{1, 3, 2})) << "6 was not saved, and 2 had to go for it";
  EXPECT_EQ(progress.best_checkpoint->step, 1);
  // Fewer are asked for when the run goes on; another metric begins afresh.
  BestCheckpointKeeper fewer(metric, 2, progress, {[](int64_t) { return true; }, [] {}});
  fewer.resume();
  EXPECT_EQ(fewer.steps(), (Steps{1, 3}));
  const std::optional<recipe::BestMetric> other = recipe::BestMetric{"val/prec@1", /*share=*/true};
  BestCheckpointKeeper another(other, 2, progress, {[](int64_t) { return true; }, [] {}});
  another.resume();
  EXPECT_EQ(another.steps(), Steps{});
}

TEST(BestCheckpoint, AsManyStayAsAreAskedFor) {
  const auto kept = plus(kByScore, {"checkpoint.keep_best=2"});
  EXPECT_EQ(small_run().train("two", kept).exit, Exit::kDone);
  std::map<int64_t, double> losses = column("two", "val/loss");
  const int64_t first = least(losses);
  losses.erase(first);
  const int64_t second = least(losses);
  Steps wanted{first, second, 12};
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  EXPECT_EQ(steps_in("two"), wanted);
}

TEST(DivergenceHelp, FitsTheRecipe) {
  const auto help = [](const std::vector<std::string>& overrides, const std::optional<std::string>& checkpoint = {}) {
    return divergence_help(recipe::read_recipe(small_run().section(overrides)), "runs/a", checkpoint);
  };
  EXPECT_THAT(help({}), AllOf(HasSubstr("optimizer.lr is cosine(3e-3, warmup=4 steps)"), HasSubstr("lengthen its warmup"),
                              HasSubstr("clip more tightly (optimizer.clip is norm(1.0))"),
                              HasSubstr("tessera train runs/a/recipe.toml KEY=VALUE --workdir runs/a-2"),
                              Not(HasSubstr("dtype")), Not(HasSubstr("model_init"))));
  EXPECT_THAT(help({"optimizer.lr=1e-3", "optimizer.clip=none", "dtype=bf16"}, "runs/a/checkpoints/step_000000004"),
              AllOf(HasSubstr("optimizer.lr is 0.001"), HasSubstr("give it a warm-up"), HasSubstr("clip = \"norm(1.0)\""),
                    HasSubstr("dtype is bf16"), HasSubstr("model_init.from=runs/a/checkpoints/step_000000004")));
}

TEST(DivergenceHelp, IsQuotedAsAShellTakesIt) {
  const std::string help =
      divergence_help(recipe::read_recipe(small_run().section()), "my runs/$a", "my runs/$a/checkpoints/step_1");
  EXPECT_THAT(help, AllOf(HasSubstr("tessera train 'my runs/$a/recipe.toml' KEY=VALUE --workdir 'my runs/$a-2'\n"),
                          HasSubstr("the same with 'model_init.from=my runs/$a/checkpoints/step_1'")));
}

// What the help says works: the workdir's recipe with other keys, from the weights of its last good checkpoint.
TEST(DivergenceHelp, CanBeFollowed) {
  std::string help;
  try {
    small_run().train("diverging", {"optimizer.lr=step(3e-3, milestones=[5 steps], factors=[1e40])", "optimizer.clip=none",
                                    "checkpoint.every=2 steps"});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kDiverged);
    help = error.what();
  }
  const std::string mark = "model_init.from=";
  ASSERT_THAT(help, HasSubstr(mark));
  const std::string from = help.substr(help.find(mark));
  EXPECT_THAT(from, HasSubstr("/checkpoints/step_"));
  const config::Section recipe =
      config::load_recipe(small_run().path("diverging") + "/recipe.toml", {"optimizer.lr=1e-3", from});
  EXPECT_EQ(train(recipe, small_run().options("diverging-2")).exit, Exit::kDone);
}

}  // namespace
}  // namespace tessera::train
