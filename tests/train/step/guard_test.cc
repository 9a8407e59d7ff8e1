// Updates that a step's program does not make, and what is kept of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/checkpoint.h"
#include "image/codec/decode.h"
#include "monitor/metrics.h"
#include "support/clock_keys.h"
#include "train/guard/bad_batches.h"
#include "train/guard/skip_update.h"
#include "train/small_run.h"
#include "train/step/program_options.h"
#include "train/step/step.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::small_run;

// The first two updates are infinite; then the rate falls to 1e-3.
const std::vector<std::string> kRecovers{"optimizer.lr=step(1e25, gamma=1e-28, milestones=[2 steps])", "guard.max_skips=3",
                                         "checkpoint.every=1 steps", "checkpoint.keep=99"};
// From the seventh on they are.
const std::vector<std::string> kDiverges{"optimizer.lr=step(1e-3, gamma=1e28, milestones=[6 steps])", "guard.max_skips=3"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<monitor::MetricRow> rows_of(const std::string& workdir) {
  return monitor::read_metrics(small_run().path(workdir) + "/metrics.jsonl");
}

// Of the steps that have a line.
std::map<int64_t, int64_t> column(const std::string& workdir, const std::string& name) {
  std::map<int64_t, int64_t> out;
  for (const monitor::MetricRow& row : rows_of(workdir)) {
    if (row.values.contains(name)) out[row.step] = std::llround(row.values.at(name));
  }
  return out;
}

std::map<std::string, std::string> arrays_of(const std::string& workdir, int64_t step, const std::string& prefix) {
  std::map<std::string, std::string> out;
  const checkpoint::LoadedCheckpoint loaded = checkpoint::load(small_run().step_of(workdir, step));
  for (const auto& [name, array] : loaded.arrays) {
    if (!name.starts_with(prefix)) continue;
    std::string bytes(static_cast<size_t>(byte_count(array.type)), '\0');
    array.read({array.type.dims, Dims(array.type.dims.size(), 0)}, reinterpret_cast<std::byte*>(bytes.data()));
    out[name] = std::move(bytes);
  }
  return out;
}

std::vector<std::string> kept_batches(const std::string& workdir) {
  std::vector<std::string> names;
  const fs::path folder = small_run().path(workdir) + "/bad_batches";
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

nlohmann::json batch_of(const std::string& workdir, int64_t step) {
  return nlohmann::json::parse(
      testing::slurp(fmt::format("{}/bad_batches/step_{:09}/batch.json", small_run().path(workdir), step)));
}

const std::string& recovered() {
  static const std::string name = [] {
    EXPECT_EQ(small_run().train("recovered", kRecovers).exit, Exit::kDone);
    return std::string("recovered");
  }();
  return name;
}

TEST(Guard, SkippedUpdatesLeaveTheStateAsItIs) {
  recovered();
  EXPECT_EQ(column("recovered", "skips_in_row"),
            (std::map<int64_t, int64_t>{{1, 1}, {2, 2}, {3, 0}, {4, 0}, {6, 0}, {8, 0}, {9, 0}, {10, 0}, {12, 0}}));
  EXPECT_EQ(column("recovered", "skips").rbegin()->second, 2);
  small_run().train("still", {"optimizer.lr=1e-30", "total=1 steps", "checkpoint.every=1 steps", "eval.val.every=100 %"});
  for (const int64_t step : {1, 2}) {
    // Those it began with. A rate of 1e-30 moves what is zero, and nothing else.
    const auto params = arrays_of("recovered", step, "params/"), still = arrays_of("still", 1, "params/");
    for (const auto& [name, bytes] : params) {
      const bool zero = bytes.find_first_not_of('\0') == std::string::npos;
      EXPECT_TRUE(zero || bytes == still.at(name)) << name;
    }
    for (const auto& [name, bytes] : arrays_of("recovered", step, "opt/"))
      EXPECT_EQ(bytes.find_first_not_of('\0'), std::string::npos) << name;
  }
  EXPECT_FALSE(arrays_of("recovered", 3, "params/") == arrays_of("recovered", 2, "params/"));
  const std::vector<monitor::MetricRow> rows = rows_of("recovered");
  EXPECT_TRUE(std::isinf(rows[0].values.at("l2_updates")));
  EXPECT_LT(rows.back().values.at("training_loss"), rows[2].values.at("training_loss")) << "it learns";
}

TEST(Guard, KeepsTheBatch) {
  recovered();
  EXPECT_EQ(kept_batches("recovered"), (std::vector<std::string>{"step_000000001", "step_000000002"}));
  std::set<std::string> ids;
  for (const int64_t step : {1, 2}) {
    const nlohmann::json batch = batch_of("recovered", step);
    EXPECT_EQ(batch["step"], step);
    EXPECT_EQ(batch["why"], "l2_updates is inf");
    EXPECT_EQ(batch["metrics"]["l2_updates"], "inf");
    EXPECT_EQ(batch["metrics"]["skips"], step);
    ASSERT_EQ(batch["rows"].size(), 12);
    for (const nlohmann::json& row : batch["rows"]) {
      ids.insert(row["id"]);
      EXPECT_THAT(row["id"].get<std::string>(), HasSubstr(row["label"].get<std::string>() + "/"));
    }
    image::Image sheet;
    const std::string png =
        testing::slurp(fmt::format("{}/bad_batches/step_{:09}/images.png", small_run().path("recovered"), step));
    EXPECT_FALSE(image::Decoder().decode({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, sheet));
    EXPECT_EQ(sheet.width(), 4 * 8);
    EXPECT_EQ(sheet.height(), 3 * 8);
  }
  EXPECT_EQ(ids.size(), 24) << "of one epoch";
}

TEST(Guard, KeepsTheLatestBatchesAlone) {
  const TrainResult result = small_run().train("many", {"optimizer.lr=step(1e25, gamma=1e-28, milestones=[50 steps])",
                                                        "guard.max_skips=50", "total=20 steps", "monitor.sinks=[]"});
  EXPECT_EQ(result.exit, Exit::kDone);
  const std::vector<std::string> kept = kept_batches("many");
  ASSERT_EQ(kept.size(), kBadBatches);
  EXPECT_EQ(kept.front(), "step_000000005");
  EXPECT_EQ(kept.back(), "step_000000020");
}

// Neither what is only named like one, nor what a link leads to.
TEST(Guard, RemovesNoBatchesThatAreNotItsOwn) {
  const std::vector<std::string> skips{"optimizer.lr=step(1e25, gamma=1e-28, milestones=[50 steps])", "guard.max_skips=50",
                                       "monitor.sinks=[]"};
  small_run().train("with_others", with(skips, {"total=1 steps"}));
  const std::string folder = small_run().path("with_others") + "/bad_batches", other = small_run().path("others_step");
  fs::create_directory(other);
  testing::spill(other + "/COMMIT", "precious");
  fs::create_directory_symlink(other, folder + "/step_000000000");
  for (const char* name : {"step_", "step_0", "step_000000001.mine", "step_notes"}) fs::create_directory(folder + "/" + name);
  testing::spill(folder + "/step_0000", "mine");
  EXPECT_EQ(small_run().train("with_others", with(skips, {"total=20 steps"})).exit, Exit::kDone);
  EXPECT_EQ(testing::slurp(other + "/COMMIT"), "precious");
  EXPECT_EQ(kept_batches("with_others").size(), kBadBatches + 6);
  // A folder that is itself a link, to another run's checkpoints say.
  const std::string checkpoints = small_run().path("with_others") + "/checkpoints";
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section(skips));
  const std::string linked = small_run().path("linked_batches");
  fs::create_directory(linked);
  fs::create_directory_symlink(checkpoints, linked + "/bad_batches");
  const auto before = std::distance(fs::directory_iterator(checkpoints), {});
  EXPECT_THROW(keep_bad_batch(recipe, linked, {.step = 30, .why = "why"}, [] { return false; }), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(checkpoints), {}), before);
}

TEST(Guard, GoesOnFromAnyCheckpointAsIfNeverStopped) {
  recovered();
  const auto metrics = [](const std::string& workdir) {
    std::vector<nlohmann::json> lines;
    std::istringstream text(testing::slurp(small_run().path(workdir) + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      lines.push_back(nlohmann::json::parse(line));
      testing::erase_clock_keys(lines.back());
    }
    return lines;
  };
  for (const int64_t k : {1, 2, 3, 9}) {
    const std::string name = fmt::format("recovered{}", k);
    fs::copy(small_run().path("recovered"), small_run().path(name), fs::copy_options::recursive);
    for (int64_t later = k + 1; later <= 12; ++later) fs::remove_all(small_run().step_of(name, later));
    EXPECT_EQ(small_run().train(name, kRecovers).exit, Exit::kDone);
    EXPECT_TRUE(small_run().weights_of(name, 12) == small_run().weights_of("recovered", 12)) << k;
    EXPECT_EQ(metrics(name), metrics("recovered")) << k;
  }
}

TEST(Guard, EndsTheRunAfterSomeSkipsInARow) {
  const std::string message = small_run().failure("diverges", kDiverges, Exit::kDiverged);
  EXPECT_THAT(message, AllOf(HasSubstr("the run diverged: 3 updates in a row were skipped"), HasSubstr("at step 9"),
                             HasSubstr("bad_batches/step_000000009"), HasSubstr("optimizer.lr is")));
  EXPECT_EQ(kept_batches("diverges").size(), 3);
  // More of them may be asked for, and the run goes on from its last checkpoint.
  EXPECT_THAT(small_run().failure("diverges", with(kDiverges, {"guard.max_skips=5"}), Exit::kDiverged),
              HasSubstr("at step 11"));
  EXPECT_THAT(small_run().failure("unguarded", {kDiverges[0]}, Exit::kDiverged), HasSubstr("l2_params is inf at step 7"));
}

// Pixels so large that the network overflows. What was measured is part of checkpoints.
TEST(Guard, CountsOnAfterARestart) {
  const std::vector<std::string> words{"data.pp=decode | random_crop(8) | flip_lr | value_range(0, 3e38)", "guard.max_skips=3",
                                       "checkpoint.every=1 steps"};
  TrainOptions options = small_run().options("large");
  options.until = "2 steps";
  EXPECT_TRUE(train(small_run().section(words), options).paused);
  EXPECT_EQ(batch_of("large", 1)["why"], "training_loss is nan");
  EXPECT_EQ(batch_of("large", 1)["metrics"]["training_loss"], "nan");
  const nlohmann::json state = nlohmann::json::parse(checkpoint::load(small_run().step_of("large", 2)).state_json);
  EXPECT_EQ(state["metrics"]["training_loss"], "nan");
  EXPECT_FALSE(state.contains("best_checkpoint")) << "by training_loss none is";
  EXPECT_THAT(small_run().failure("large", words, Exit::kDiverged),
              AllOf(HasSubstr("3 updates in a row were skipped"), HasSubstr("because training_loss is nan at step 3")));
}

// What the program decides, from what it measured.
TEST(Guard, SkipsGradientsThatAreFarAboveTheirAverage) {
  constexpr double kSpike = 1.02, kWindow = 3;
  EXPECT_EQ(small_run()
                .train("spikes", {"guard.spike=1.02", "guard.window=3", "guard.max_skips=50", "log=1 steps", "total=60 steps",
                                  "eval.val.every=100 %"})
                .exit,
            Exit::kDone);
  double average = 0, count = 0;
  int64_t skips = 0, in_row = 0;
  for (const monitor::MetricRow& row : rows_of("spikes")) {
    const double norm = row.values.at("l2_grads");
    EXPECT_NEAR(row.values.at("l2_grads_average"), average, 1e-4 * average) << row.step;
    average = row.values.at("l2_grads_average");
    const bool made = count < kWindow || norm <= kSpike * average;
    skips += made ? 0 : 1;
    in_row = made ? 0 : in_row + 1;
    EXPECT_EQ(std::llround(row.values.at("skips")), skips) << row.step;
    EXPECT_EQ(std::llround(row.values.at("skips_in_row")), in_row) << row.step;
    if (!made) continue;
    count = std::min(count + 1, kWindow);
    average += (norm - average) / count;
  }
  EXPECT_GT(skips, 3);
  EXPECT_LT(skips, 50);
  EXPECT_THAT(batch_of("spikes", std::stoll(kept_batches("spikes").back().substr(5)))["why"].get<std::string>(),
              AllOf(HasSubstr("l2_grads is "), HasSubstr(" times its average")));
}

TEST(Guard, DecidesAlikeOnAMeshAndInMicroBatches) {
  for (const auto& [name, words] : std::map<std::string, std::vector<std::string>>{
           {"replicas", {"mesh=replica=2"}}, {"sharded", {"mesh=fsdp=2", "sharding.preset=fully_sharded", "accumulate=2"}}}) {
    TrainOptions options = small_run().options(name);
    options.device.devices = 2;
    EXPECT_EQ(train(small_run().section(with(kRecovers, words)), options).exit, Exit::kDone);
    EXPECT_EQ(column(name, "skips"), column(recovered(), "skips")) << name;
    EXPECT_TRUE(arrays_of(name, 1, "params/") == arrays_of("recovered", 1, "params/")) << name;
    EXPECT_EQ(kept_batches(name), kept_batches("recovered"));
    EXPECT_EQ(batch_of(name, 2)["rows"], batch_of("recovered", 2)["rows"]);
  }
}

TEST(Guard, ARunMayBeginWithItAndGoOnWithout) {
  const std::vector<std::string> plain{"checkpoint.every=1 steps", "checkpoint.keep=99"};
  small_run().train("plain", plain);
  fs::copy(small_run().path("plain"), small_run().path("later"), fs::copy_options::recursive);
  for (int64_t step = 5; step <= 12; ++step) fs::remove_all(small_run().step_of("later", step));
  EXPECT_EQ(small_run().train("later", with(plain, {"guard.max_skips=2"})).exit, Exit::kDone);
  EXPECT_TRUE(arrays_of("later", 12, "params/") == arrays_of("plain", 12, "params/")) << "nothing was skipped";
  EXPECT_EQ(arrays_of("later", 12, "guard").size(), 1);
  for (int64_t step = 9; step <= 12; ++step) fs::remove_all(small_run().step_of("later", step));
  EXPECT_EQ(small_run().train("later", plain).exit, Exit::kDone);
  EXPECT_TRUE(small_run().weights_of("later", 12) == small_run().weights_of("plain", 12));
}

// So that what is compiled without it stays in the cache.
TEST(Guard, WithoutItAStepIsTheSameProgram) {
  const auto text = [](const std::vector<std::string>& words) {
    const recipe::Recipe recipe = recipe::read_recipe(small_run().section(words));
    return train_program(*recipe.model, recipe::recipe_layout(recipe), *recipe.optimizer, train_options(recipe, {})).text;
  };
  const auto count = [](const std::string& where, const std::string& what) {
    int64_t times = 0;
    for (size_t at = where.find(what); at != std::string::npos; at = where.find(what, at + 1)) ++times;
    return times;
  };
  const std::string plain = text({}), guarded = text({"guard.max_skips=2"});
  EXPECT_EQ(count(plain, "tensor<4xf32>"), 0) << "its state";
  EXPECT_GT(count(guarded, "tensor<4xf32>"), 0);
  EXPECT_GT(count(guarded, "is_finite"), count(plain, "is_finite"));
  EXPECT_GT(count(guarded, "stablehlo.select"), count(plain, "stablehlo.select") + 40) << "of each parameter and slot";
  EXPECT_EQ(guarded, text({"guard.max_skips=7"})) << "they are counted on the host";
}

TEST(Guard, MistakesAreNamed) {
  EXPECT_THAT(small_run().failure("none", {"guard.max_skips=0"}, Exit::kUsage), HasSubstr("`guard.max_skips`"));
  EXPECT_THAT(small_run().failure("none", {"guard.spike=1"}, Exit::kUsage), HasSubstr("`guard.spike` must be above 1"));
  EXPECT_THAT(small_run().failure("none", {"guard.window=0"}, Exit::kUsage), HasSubstr("`guard.window`"));
  EXPECT_THAT(small_run().failure("none", {"guard.max_skip=2"}, Exit::kUsage), HasSubstr("guard.max_skips"));
}

}  // namespace
}  // namespace tessera::train
