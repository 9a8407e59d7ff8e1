// Whole runs on the CPU plugin, inside this process. What only a process of its own can show (SIGKILL, exit codes) is in
// tests/cli.

#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshots.h"
#include "inference/plain_weights.h"
#include "monitor/metrics.h"
#include "state/model_source.h"
#include "store/file.h"
#include "support/clock_keys.h"
#include "train/small_run.h"
#include "train/workdir/disk_space.h"
#include "train/workdir/run_facts.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_run;

// metrics.jsonl without what depends on the clock.
std::vector<nlohmann::json> metrics_of(const std::string& workdir) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(testing::slurp(small_run().path(workdir) + "/metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    testing::erase_clock_keys(json);
    lines.push_back(std::move(json));
  }
  return lines;
}

std::string summary_of(const std::string& workdir) { return testing::slurp(small_run().path(workdir) + "/summary.csv"); }

// A run from start to end, never interrupted, with every checkpoint kept: the measure of the others.
const std::string& whole() {
  static const std::string name = [] {
    const TrainResult result = small_run().train("whole", {"checkpoint.every=1 steps", "checkpoint.keep=99"});
    EXPECT_EQ(result.exit, Exit::kDone);
    return std::string("whole");
  }();
  return name;
}

void expect_same_weights(const std::string& workdir) {
  EXPECT_EQ(small_run().weights_of(workdir, 12), small_run().weights_of(whole(), 12)) << workdir;
}

void expect_same_end(const std::string& workdir) {
  expect_same_weights(workdir);
  EXPECT_EQ(metrics_of(workdir), metrics_of(whole())) << workdir;
  EXPECT_EQ(summary_of(workdir), summary_of(whole())) << workdir;
}

TEST(Trainer, LearnsAndWritesTheContract) {
  const TrainResult result = small_run().train("learns", {"total=60 steps", "optimizer.lr=3e-3"});
  EXPECT_EQ(result.exit, Exit::kDone);
  EXPECT_EQ(result.step, 60);
  EXPECT_TRUE(fs::exists(result.checkpoint + "/COMMIT"));
  ASSERT_EQ(result.scores.size(), 1u);
  EXPECT_EQ(result.scores[0].second.count, 23);
  EXPECT_GT(result.scores[0].second.at("prec@1"), 0.9);

  const std::vector<monitor::MetricRow> rows = monitor::read_metrics(result.workdir + "/metrics.jsonl");
  EXPECT_EQ(rows.front().step, 1);
  EXPECT_EQ(rows.back().step, 60);
  EXPECT_LT(rows.back().values.at("training_loss"), 0.75 * rows.front().values.at("training_loss"));
  for (const char* key : {"training_loss", "l2_grads", "l2_params", "l2_updates", "lr", "img/sec", "img/sec/core", "input_wait",
                          "uptime", "examples_seen", "epoch", "val/prec@1", "val/prec@5", "val/loss"}) {
    EXPECT_TRUE(rows.back().values.contains(key)) << key;
  }
  EXPECT_EQ(rows.back().values.at("examples_seen"), 720);
  EXPECT_EQ(rows.back().values.at("epoch"), 12);
  EXPECT_NEAR(rows.front().values.at("lr"), 3e-3, 1e-9);
  EXPECT_TRUE(fs::exists(result.workdir + "/recipe.toml"));
  EXPECT_NE(testing::slurp(result.workdir + "/summary.csv").find("eval_top1"), std::string::npos);
}

TEST(Trainer, TheSummaryHasAColumnForEachScore) {
  // `often` is evaluated alone at step 2: no column may take its figures for those of `val`.
  small_run().train("columns", {"total=4 steps", "average={decay=0.5}", "eval.val.every=4 steps", "eval.often.every=2 steps",
                                "eval.often.type=classification",
                                fmt::format("eval.often.data={{source='folder({}/train)', pp='decode | central_crop(8)'}}",
                                            small_run().path("."))});
  std::istringstream text(summary_of("columns"));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(text, line);) rows.push_back(split(line, ','));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(join(rows[0], ","),
            "epoch,train_loss,eval_loss,eval_top1,eval_top5,val_ema/loss,val_ema/prec@1,val_ema/prec@5,often/loss,often/prec@1,"
            "often/prec@5,often_ema/loss,often_ema/prec@1,often_ema/prec@5,step");
  const std::vector<nlohmann::json> lines = metrics_of("columns");
  const auto number = [&](size_t row, size_t column) { return std::stod(rows[row][column]); };
  for (const size_t val : {2, 3, 4, 5, 6, 7}) EXPECT_EQ(rows[1][val], "") << rows[0][val];
  for (const size_t often : {8, 9, 11}) EXPECT_EQ(number(1, often), lines[1][rows[0][often]].get<double>()) << rows[0][often];
  for (const size_t any : {5, 6, 8, 9, 11, 12}) EXPECT_EQ(number(2, any), lines[2][rows[0][any]].get<double>()) << rows[0][any];
  EXPECT_EQ(number(2, 3), 100 * lines[2]["val/prec@1"].get<double>());
}

TEST(Trainer, TwoRunsAreBitIdentical) {
  small_run().train("again", {"data.threads=1"});
  expect_same_end("again");
}

TEST(Trainer, GoesOnFromAnyCheckpointAsIfNeverStopped) {
  whole();
  for (const int64_t k : {1, 3, 4, 7, 11}) {
    // What a run leaves that was killed between step k + 1 and the next checkpoint: later metrics, and a half-written save.
    const std::string name = fmt::format("from{}", k);
    fs::copy(small_run().path("whole"), small_run().path(name), fs::copy_options::recursive);
    for (int64_t later = k + 1; later <= 12; ++later) {
      fs::remove_all(fmt::format("{}/checkpoints/step_{:09}", small_run().path(name), later));
    }
    testing::spill(small_run().path(name) + "/checkpoints/step_000000012.tmp-999999999", "half");
    EXPECT_EQ(small_run().train(name).exit, Exit::kDone);
    expect_same_end(name);
  }
}

TEST(Trainer, ComputesInTheRecipesType) {
  const auto loss = [](const std::string& dtype) {
    small_run().train(dtype, {"total=4 steps", "eval.val.every=4 steps", fmt::format("dtype={}", dtype)});
    return metrics_of(dtype)[0]["training_loss"].get<double>();
  };
  EXPECT_NEAR(loss("bf16"), loss("f32"), 0.03);
  EXPECT_NE(loss("bf16"), loss("f32"));
}

TEST(Trainer, SavesAtMultiplesOfKeepEveryToo) {
  const std::vector<std::string> overrides = {"total=9 steps", "checkpoint={every='4 steps', keep=1, keep_every='3 steps'}",
                                              "checkpoint.best=none"};
  EXPECT_EQ(small_run().train("kept", overrides).exit, Exit::kDone);
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(small_run().path("kept") + "/checkpoints")) {
    there.insert(entry.path().filename());
  }
  EXPECT_EQ(there, (std::set<std::string>{"step_000000003", "step_000000006", "step_000000009"}));
}

TEST(Trainer, StartsAfreshWhereNothingWasSavedYet) {
  whole();
  fs::copy(small_run().path("whole"), small_run().path("unsaved"), fs::copy_options::recursive);
  // A run that was killed in its first save leaves lines of metrics, and no checkpoint.
  fs::remove_all(small_run().path("unsaved") + "/checkpoints");
  fs::create_directory(small_run().path("unsaved") + "/checkpoints");
  fs::remove(small_run().path("unsaved") + "/.saved");
  EXPECT_EQ(small_run().train("unsaved").exit, Exit::kDone);
  expect_same_end("unsaved");
}

TEST(Trainer, PassesOverADamagedCheckpoint) {
  whole();
  fs::copy(small_run().path("whole"), small_run().path("damaged"), fs::copy_options::recursive);
  const std::string state = small_run().path("damaged") + "/checkpoints/step_000000012/state.safetensors";
  std::string bytes = testing::slurp(state);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  testing::spill(state, bytes);
  EXPECT_EQ(small_run().train("damaged").exit, Exit::kDone);
  expect_same_end("damaged");
}

// Sends a signal once the run has written a line of `step`; the run may be anywhere by then.
struct SignalAt {
  SignalAt(const std::string& workdir, const std::string& text, int number)
      : thread_([this, path = small_run().path(workdir) + "/metrics.jsonl", text, number] {
          while (!over_ && testing::slurp(path).find(text) == std::string::npos) std::this_thread::yield();
          if (!over_) kill(getpid(), number);
        }) {}
  ~SignalAt() {
    over_ = true;
    thread_.join();
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(Trainer, SignalsSaveAndTheNextStartGoesOn) {
  whole();
  int number = 0;
  for (const auto& [signal_number, code] : {std::pair{SIGTERM, Exit::kPreempted}, std::pair{SIGINT, Exit::kInterrupted}}) {
    const std::string name = fmt::format("signal{}", number++);
    TrainResult result;
    {
      const SignalAt signal_at(name, "{\"step\":2,", signal_number);
      result = small_run().train(name);
    }
    if (result.step < 12) {
      EXPECT_EQ(result.exit, code);
      EXPECT_TRUE(fs::exists(result.checkpoint + "/COMMIT"));
      EXPECT_EQ(small_run().train(name).exit, Exit::kDone);
    }
    expect_same_end(name);
  }
}

// A signal that is there before the first step: the state of step 0 is saved.
TEST(Trainer, SignalDuringTheStart) {
  whole();
  TrainResult result;
  {
    std::atomic<bool> over{false};
    std::thread sender([&] {
      while (!over && !fs::exists(small_run().path("early") + "/recipe.toml")) std::this_thread::yield();
      if (!over) kill(getpid(), SIGTERM);
    });
    result = small_run().train("early");
    over = true;
    sender.join();
  }
  EXPECT_EQ(result.exit, Exit::kPreempted);
  EXPECT_TRUE(fs::exists(result.checkpoint + "/COMMIT"));
  EXPECT_EQ(small_run().train("early").exit, Exit::kDone);
  expect_same_end("early");
}

// An evaluation that a signal cut off is owed: state.json says so, and the next start does it. The last one too.
// As --until asks, in one start after another.
TEST(Trainer, PausesAndGoesOnAsIfItHadNot) {
  TrainOptions options = small_run().options("paused");
  for (const int64_t step : {1, 3, 7}) {
    options.until = fmt::format("{} steps", step);
    const TrainResult result = train(small_run().section(), options);
    EXPECT_EQ(result.exit, Exit::kDone);
    EXPECT_TRUE(result.paused);
    EXPECT_EQ(result.step, step);
    EXPECT_EQ(result.checkpoint, small_run().step_of("paused", step));
    const TrainResult again = train(small_run().section(), options);
    EXPECT_TRUE(again.paused) << "there is nothing to do";
    EXPECT_EQ(again.step, step);
  }
  const RunFacts facts = parse_run_facts(testing::slurp(small_run().path("paused") + "/run.json"), "run.json");
  EXPECT_EQ(facts.state, "stopped");
  EXPECT_EQ(facts.message, "--until");
  EXPECT_FALSE(small_run().train("paused").paused);
  expect_same_end("paused");
  options = small_run().options("until_the_end");
  options.until = "13 steps";
  EXPECT_FALSE(train(small_run().section(), options).paused);
  expect_same_end("until_the_end");
  options.until = "0 steps";
  EXPECT_THROW(train(small_run().section(), options), Error);
}

TEST(Trainer, GoesBackToAStepThatIsAskedFor) {
  whole();
  fs::copy(small_run().path("whole"), small_run().path("back"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::vector<std::string> kept{"checkpoint.every=1 steps", "checkpoint.keep=99"};
  TrainOptions options = small_run().options("back");
  options.from_step = 20;
  try {
    train(small_run().section(kept), options);
    ADD_FAILURE() << "there is no such step";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no checkpoint of step 20\n  --> --from-step\nhelp: it has those of steps 1, 2,"));
  }
  expect_same_end("back");
  // Later steps are trained again, and what they had is kept.
  options.from_step = 7;
  options.until = "9 steps";
  EXPECT_EQ(train(small_run().section(kept), options).step, 9);
  EXPECT_EQ(metrics_of("back").back()["step"], 9) << "the lines of later steps are gone";
  for (const int64_t later : {8, 10, 12})
    EXPECT_TRUE(fs::exists(small_run().step_of("back", later) + ".later/COMMIT")) << later;
  for (const int64_t gone : {10, 12}) EXPECT_FALSE(fs::exists(small_run().step_of("back", gone))) << gone;
  EXPECT_EQ(small_run().train("back", kept).exit, Exit::kDone);
  expect_same_end("back");
}

TEST(Trainer, OwedEvaluationIsDoneAgain) {
  whole();
  for (const int64_t step : {6, 12}) {
    const std::string name = fmt::format("owed{}", step);
    fs::copy(small_run().path("whole"), small_run().path(name), fs::copy_options::recursive);
    const std::string checkpoints = small_run().path(name) + "/checkpoints";
    for (int64_t later = step + 1; later <= 12; ++later) fs::remove_all(fmt::format("{}/step_{:09}", checkpoints, later));
    const checkpoint::LoadedCheckpoint loaded = checkpoint::load(fmt::format("{}/step_{:09}", checkpoints, step));
    checkpoint::Snapshot snapshot;
    snapshot.step = step;
    std::vector<checkpoint::HostTensor> tensors;
    for (const checkpoint::TensorView& tensor : checkpoint::whole_arrays(loaded.arrays).views) {
      tensors.push_back({tensor.name, tensor.type, store::copy_bytes(tensor.data)});
    }
    snapshot.add(std::move(tensors));
    nlohmann::ordered_json state = nlohmann::ordered_json::parse(loaded.state_json);
    state["owed"] = true;
    snapshot.state_json = state.dump();
    checkpoint::write_checkpoint(store::local_files(), checkpoints, snapshot);
    const TrainResult result = small_run().train(name);
    EXPECT_EQ(result.exit, Exit::kDone);
    EXPECT_FALSE(result.finished_before);
    EXPECT_EQ(result.scores.size(), 1u);
    expect_same_end(name);
  }
}

// A checkpoint as three hosts would have written it: its weights are those of the plain one, and it continues bit for bit.
TEST(Trainer, ContinuesFromSlicesInSeveralFiles) {
  whole();
  fs::copy(small_run().path("whole"), small_run().path("sliced"), fs::copy_options::recursive);
  const std::string checkpoints = small_run().path("sliced") + "/checkpoints", path = checkpoints + "/step_000000006";
  for (int64_t later = 7; later <= 12; ++later) fs::remove_all(fmt::format("{}/step_{:09}", checkpoints, later));
  const state::LoadedModel plain = state::load_model(path);
  inference::write_plain_weights(path, small_run().path("plain.safetensors"));
  {
    const checkpoint::LoadedCheckpoint six = checkpoint::load(path);
    std::vector<checkpoint::HostTensor> tensors;
    for (const checkpoint::TensorView& tensor : checkpoint::whole_arrays(six.arrays).views) {
      tensors.push_back({tensor.name, tensor.type, store::copy_bytes(tensor.data)});
    }
    checkpoint::Snapshot snapshot = testing::sliced(tensors, 3, 1);
    snapshot.step = 6;
    snapshot.state_json = six.state_json;
    checkpoint::write_checkpoint(store::local_files(), checkpoints, snapshot);
  }
  EXPECT_EQ(checkpoint::load(path).files.size(), 3u);
  inference::write_plain_weights(path, small_run().path("merged.safetensors"));
  EXPECT_EQ(testing::slurp(small_run().path("merged.safetensors")), testing::slurp(small_run().path("plain.safetensors")));
  const state::LoadedModel model = state::load_model(path);
  ASSERT_EQ(model.params.size(), plain.params.size());
  for (size_t i = 0; i < plain.params.size(); ++i) {
    EXPECT_EQ(store::as_text(model.params[i].data), store::as_text(plain.params[i].data)) << plain.layout.entries[i].name;
  }
  EXPECT_EQ(small_run().train("sliced").exit, Exit::kDone);
  expect_same_end("sliced");
}

TEST(Trainer, FinishedRunSaysSo) {
  whole();
  const std::string before = testing::slurp(small_run().path("whole") + "/metrics.jsonl");
  const TrainResult result = small_run().train("whole", {"checkpoint.every=1 steps", "checkpoint.keep=99"});
  EXPECT_TRUE(result.finished_before);
  EXPECT_EQ(result.exit, Exit::kDone);
  EXPECT_EQ(testing::slurp(small_run().path("whole") + "/metrics.jsonl"), before);
}

// A kill right after the last save keeps a run from removing the checkpoint before it, and from drawing its curves.
TEST(Trainer, AFinishedRunIsTidied) {
  const std::vector<std::string> all{"checkpoint.every=4 steps", "checkpoint.keep=3", "checkpoint.best=none"};
  ASSERT_EQ(small_run().train("tidied", all).exit, Exit::kDone);
  const std::string plot = small_run().path("tidied") + "/plot.svg", drawn = testing::slurp(plot);
  fs::remove(plot);
  EXPECT_TRUE(small_run().train("tidied", {all[0], "checkpoint.keep=2", all[2]}).finished_before);
  EXPECT_EQ(testing::slurp(plot), drawn);
  EXPECT_FALSE(fs::exists(small_run().step_of("tidied", 4)));
  EXPECT_TRUE(fs::exists(small_run().step_of("tidied", 8)));
  EXPECT_TRUE(fs::exists(small_run().step_of("tidied", 12)));
}

// Its recipe.toml lacks a key that there is now.
TEST(Trainer, ARunOfAnEarlierVersionGoesOn) {
  TrainOptions paused = small_run().options("earlier");
  paused.until = "4 steps";
  ASSERT_TRUE(train(small_run().section(), paused).paused);
  const std::string path = small_run().path("earlier") + "/recipe.toml";
  std::string recipe = testing::slurp(path);
  const size_t at = recipe.find("aug_repeats = 1\n");
  ASSERT_NE(at, std::string::npos);
  testing::spill(path, recipe.erase(at, 16));
  EXPECT_EQ(small_run().train("earlier").step, 12);
}

TEST(Trainer, MayBeMadeLonger) {
  small_run().train("longer", {"total=4 steps", "optimizer.lr=3e-3"});
  const TrainResult result = small_run().train("longer", {"total=6 steps", "optimizer.lr=3e-3"});
  EXPECT_EQ(result.exit, Exit::kDone);
  EXPECT_EQ(result.step, 6);
}

TEST(Trainer, AnotherRecipesWorkdirIsRefused) {
  whole();
  const std::string message = small_run().failure("whole", {"model.width=32", "optimizer.weight_decay=0.1"}, Exit::kUsage);
  EXPECT_NE(message.find("model.width = 32   there: 16"), std::string::npos) << message;
  EXPECT_NE(message.find("optimizer.weight_decay"), std::string::npos) << message;
  fs::create_directories(small_run().path("foreign"));
  testing::spill(small_run().path("foreign") + "/thesis.tex", "precious");
  EXPECT_NE(small_run().failure("foreign", {}, Exit::kUsage).find("thesis.tex"), std::string::npos);
}

TEST(Trainer, LostMetricsAreToldOfWhereTheRunGoesOn) {
  const auto said_until = [](const std::string& until) {
    TrainOptions options = small_run().options("lost_lines");
    options.until = until;
    ::testing::internal::CaptureStderr();
    train(small_run().section(), options);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said_until("4 steps"), Not(HasSubstr("has no line")));
  EXPECT_THAT(said_until("8 steps"), Not(HasSubstr("has no line")));
  fs::remove(small_run().path("lost_lines") + "/metrics.jsonl");
  EXPECT_THAT(said_until("12 steps"), HasSubstr("lost_lines/metrics.jsonl` has no line of the steps up to 8"));
}

// It has no line before the first that is due.
TEST(Trainer, ARunThatBeganWithAnothersStateMissesNoMetrics) {
  const auto said_until = [](const std::string& until) {
    TrainOptions options = small_run().options("took_over");
    options.until = until;
    ::testing::internal::CaptureStderr();
    train(
        small_run().section({fmt::format("resume={}@8", small_run().path(whole())), "log=50 steps", "eval.val.every=12 steps"}),
        options);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said_until("10 steps"), HasSubstr("begins at step 8"));
  EXPECT_TRUE(monitor::read_metrics(small_run().path("took_over") + "/metrics.jsonl").empty());
  EXPECT_THAT(said_until("11 steps"), AllOf(HasSubstr("from step 10"), Not(HasSubstr("has no line"))));
}

TEST(Trainer, DivergenceNamesTheStepAndSavesNothing) {
  const std::string message = small_run().failure(
      "diverged", {"optimizer.lr=1e38", "optimizer.clip=none", "checkpoint.every=1 steps"}, Exit::kDiverged);
  EXPECT_NE(message.find("at step "), std::string::npos) << message;
  EXPECT_NE(message.find("optimizer.lr is 1e+38"), std::string::npos) << message;
  EXPECT_EQ(message.find("-nan"), std::string::npos) << message;
  for (const monitor::MetricRow& row : monitor::read_metrics(small_run().path("diverged") + "/metrics.jsonl")) {
    for (const auto& [name, value] : row.values) EXPECT_TRUE(std::isfinite(value)) << name;
  }
  const auto latest = checkpoint::find_latest(small_run().path("diverged") + "/checkpoints");
  if (latest.checkpoint) {
    EXPECT_NE(message.find(fmt::format("of step {}", latest.checkpoint->step)), std::string::npos) << message;
  }
}

TEST(Trainer, FullDiskIsAWarningUntilTheEnd) {
  // Files larger than this can't be written: of a checkpoint all but its header. The metrics are smaller.
  const recipe::Recipe recipe = recipe::read_recipe(small_run().section());
  const DiskNeed need = disk_need(recipe, recipe::recipe_layout(recipe));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{static_cast<rlim_t>(need.file_bytes), before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const TrainResult result = small_run().train("full");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(result.exit, Exit::kData);
  EXPECT_EQ(result.step, 12);
  EXPECT_TRUE(result.checkpoint.empty());
  EXPECT_EQ(metrics_of("full"), metrics_of(whole()));
  // With room again the run goes on from what it has.
  EXPECT_EQ(small_run().train("full").exit, Exit::kDone);
  signal(SIGXFSZ, handler);
  expect_same_end("full");
}

// Nothing is in the cache. The loop waits for the programs of the first images, histograms and evaluations too.
TEST(Trainer, WaitsForProgramsAreNoSteps) {
  const testing::TempDir cache;
  TrainOptions options = small_run().options("cold");
  options.device.cache = pjrt::ExecutableCache(cache.path());
  train(small_run().section({"log=1 steps", "monitor.histograms=12 steps", "data.mixup={mixup=0.8}"}), options);
  const auto rows = monitor::read_metrics(small_run().path("cold") + "/metrics.jsonl");
  ASSERT_EQ(rows.size(), 12u);
  const auto& first = rows.front().values;
  EXPECT_LT(first.at("goodput"), 0.25 * first.at("badput/compile"));
  EXPECT_LT(first.at("z/secs/step"), 0.25 * first.at("badput/compile") * first.at("uptime")) << "nor of img/sec";
  const auto& last = rows.back().values;
  EXPECT_LT(last.at("goodput"), 0.25 * last.at("badput/compile"));
}

// Histograms of a step take as long as the step at least, and are counted before it. Steps 2 to 11 have no evaluations or saves.
TEST(Trainer, TimeOfHistogramsIsNoTimeOfSteps) {
  small_run().train("counted",
                    {"log=1 steps", "eval.val.every=12 steps", "checkpoint.every=12 steps", "monitor.histograms=1 steps"});
  const auto rows = monitor::read_metrics(small_run().path("counted") + "/metrics.jsonl");
  ASSERT_EQ(rows.size(), 12u);
  // Most of them, since a busy machine may hold up any step.
  int less = 0, counted = 0;
  for (size_t i = 1; i < 11; ++i) {
    const auto& row = rows[i].values;
    const double passed = row.at("uptime") - rows[i - 1].values.at("uptime") - row.at("z/secs/input");
    less += row.at("z/secs/step") < 0.85 * passed;
    const double cores = row.at("img/sec") / row.at("img/sec/core");
    const double grown = 3600 * (row.at("core_hours") - rows[i - 1].values.at("core_hours")) / cores;
    counted += grown - row.at("z/secs/input") < 0.85 * passed && row.at("z/secs/histograms") > 0.15 * passed;
  }
  EXPECT_GE(less, 6);
  EXPECT_GE(counted, 6) << "core hours are of steps alone";
}

// No line follows it: with an evaluation at the end and without, and where a score ends the run before its last step.
TEST(Trainer, TheLastLineTellsOfTheLastSave) {
  // The steps of the lines that tell of a save, and the last line's, of a run that saves at its end alone.
  const auto saves = [](const std::string& workdir, std::vector<std::string> keys) {
    keys.insert(keys.end(), {"checkpoint.every=100 steps", "checkpoint.best=none"});
    small_run().train(workdir, keys);
    std::vector<int64_t> steps;
    int64_t last = 0;
    for (const monitor::MetricRow& row : monitor::read_metrics(small_run().path(workdir) + "/metrics.jsonl")) {
      EXPECT_GT(row.step, last) << "one line a step";
      last = row.step;
      if (row.values.contains("z/secs/save")) steps.push_back(row.step);
    }
    return std::pair(steps, last);
  };
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(saves("last_save", {}), std::pair(Steps{12}, int64_t{12}));
  EXPECT_EQ(saves("last_save_alone", {"eval.val.every=5 steps", "eval.val.at_end=false"}), std::pair(Steps{12}, int64_t{12}));
  const auto [steps, last] = saves(
      "last_save_early",
      {"total=60 steps", "optimizer.lr=step(3e-3, milestones=[6 steps], factors=[1000])", "early_stop=val/loss, patience=3"});
  EXPECT_LT(last, 60);
  EXPECT_EQ(steps, Steps{last});
}

// The files of the start that stopped are closed by then: run.json says how long it took, and the next start's first line.
TEST(Trainer, TheLineAfterAStopTellsOfItsSave) {
  const std::vector<std::string> keys{"checkpoint.every=100 steps", "checkpoint.best=none"};
  const auto rows = [] { return monitor::read_metrics(small_run().path("stop_save") + "/metrics.jsonl"); };
  const auto tells = [](const monitor::MetricRow& row) { return row.values.contains("z/secs/save"); };
  TrainOptions options = small_run().options("stop_save");
  options.until = "5 steps";
  train(small_run().section(keys), options);
  const RunFacts facts = parse_run_facts(testing::slurp(small_run().path("stop_save") + "/run.json"), "run.json");
  ASSERT_TRUE(facts.last_save);
  EXPECT_EQ(facts.last_save->step, 5);
  EXPECT_GT(facts.last_save->seconds, 0);
  EXPECT_TRUE(std::ranges::none_of(rows(), tells));
  small_run().train("stop_save", keys);
  std::vector<int64_t> steps;
  for (const monitor::MetricRow& row : rows()) {
    if (!tells(row)) continue;
    steps.push_back(row.step);
    if (row.step == 6) {
      EXPECT_DOUBLE_EQ(row.values.at("z/secs/save"), facts.last_save->seconds);
      EXPECT_GT(row.values.at("badput/save"), 0);
    }
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{6, 12}));
}

// As an evaluation that was owed saves the step once more, before a kill: the checkpoint counts the save of the stop already.
TEST(Trainer, TheSaveOfAStopIsOfItsCheckpointAlone) {
  const std::vector<std::string> keys{"checkpoint.every=100 steps", "checkpoint.best=none"};
  TrainOptions options = small_run().options("other_save");
  options.until = "5 steps";
  train(small_run().section(keys), options);
  const std::string file = small_run().path("other_save") + "/run.json";
  RunFacts facts = parse_run_facts(testing::slurp(file), file);
  ASSERT_TRUE(facts.last_save);
  facts.last_save->uptime /= 2;
  store::write_atomic(store::local_files(), file, to_json(facts));
  small_run().train("other_save", keys);
  for (const monitor::MetricRow& row : monitor::read_metrics(small_run().path("other_save") + "/metrics.jsonl"))
    EXPECT_EQ(row.values.contains("z/secs/save"), row.step == 12) << row.step;
}

TEST(Trainer, EvaluatesAtTheStartWhenAsked) {
  small_run().train("at_start", {"eval_at_start=true"});
  const auto lines = metrics_of("at_start");
  EXPECT_EQ(lines.front()["step"], 0);
  EXPECT_TRUE(lines.front().contains("val/prec@1"));
  EXPECT_FALSE(lines.front().contains("training_loss"));
  expect_same_weights("at_start");
}

TEST(Trainer, FrozenPartsThaw) {
  const std::string thaw = "optimizer.schedules=[\"(blocks|patch_embed)/.* = constant(1e-2, start=8 steps)\"]";
  small_run().train("thaw", {thaw, "checkpoint.every=4 steps", "checkpoint.keep=9"});
  const auto at = [](int64_t step) {
    return checkpoint::load(fmt::format("{}/checkpoints/step_{:09}", small_run().path("thaw"), step));
  };
  const auto first = at(4), frozen = at(8), last = at(12);
  for (const char* name : {"params/patch_embed/kernel", "params/blocks/1/attn/qkv/kernel"}) {
    const auto values = [&](const checkpoint::LoadedCheckpoint& loaded) {
      const store::Bytes bytes = checkpoint::whole_bytes(loaded.arrays.at(name));
      return std::vector<std::byte>(bytes.data.begin(), bytes.data.end());
    };
    EXPECT_EQ(values(first), values(frozen)) << name;
    EXPECT_NE(values(frozen), values(last)) << name;
  }
}

TEST(Trainer, StartsFromOtherWeights) {
  whole();
  const std::string from = fmt::format("model_init={{from=\"{}\"}}", small_run().path("whole"));
  small_run().train("init", {from, "eval_at_start=true", "checkpoint.every=0 steps"});
  EXPECT_EQ(metrics_of("init").front()["val/loss"], metrics_of("whole").back()["val/loss"]);
  const std::string message = small_run().failure("misfit", {from, "model.width=32"}, Exit::kData);
  EXPECT_NE(message.find("of another shape or kind"), std::string::npos) << message;
  EXPECT_NE(message.find("dont_load"), std::string::npos) << message;
}

}  // namespace
}  // namespace tessera::train
