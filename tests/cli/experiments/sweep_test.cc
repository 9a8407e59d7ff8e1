// tessera sweep: many runs of a recipe.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text/text.h"
#include "cli/metrics_lines.h"
#include "cli/run_program.h"
#include "support/tensorboard.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 8);
    write_images(folder_ / "val", 4);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  Outcome sweep(std::vector<std::string> more) const {
    more.insert(more.begin(), {"sweep", "tiny.toml"});
    return run_program(more, folder_.path());
  }
  std::string weights(const std::string& run) const {
    return read_file(folder_ / run / "checkpoints/step_000000006/state.safetensors");
  }
  TempFolder folder_;
};

TEST_F(SweepTest, TrainsEveryChoiceAsTrainWouldAndCompilesOnce) {
  const Outcome outcome = sweep({"lr=1e-3,1e-2", "seed=0..1", "--jobs", "2", "--cache-dir", folder_ / "cache"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("4 runs in runs/tiny-sweep-1, 2 at a time"), HasSubstr("[4/4] ")));
  EXPECT_THAT(outcome.out, ContainsRegex("lr +val/prec@1 +± +runs\n1e-[23] .* %.* 2\n1e-[23] .* %.* 2\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("training steps: 1 compiled in .*, 3 loaded"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("compiled for")));
  EXPECT_THAT(outcome.err, ContainsRegex("[0-9.]+ s, [0-9.]+ s of it compiling\n"));
  const std::string csv = read_file(folder_ / "runs/tiny-sweep-1/sweep.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5) << csv;
  EXPECT_THAT(csv, AllOf(HasSubstr("run,lr,seed,state,best val/prec@1,"), HasSubstr("lr=1e-2_seed=1,1e-2,1,done,")));
  EXPECT_THAT(read_file(folder_ / "runs/tiny-sweep-1/sweep.svg"), HasSubstr("val/prec@1"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny-sweep-1/report/index.html"));
  const std::vector<std::string> alone{"train", "tiny.toml", "optimizer.lr=1e-3", "seed=1", "--workdir", "alone"};
  ASSERT_EQ(run_program(alone, folder_.path()).exit, 0);
  EXPECT_FALSE(weights("alone").empty());
  EXPECT_TRUE(weights("runs/tiny-sweep-1/lr=1e-3_seed=1") == weights("alone"));
}

// What changes the program is compiled for each of its values, and the output says so.
TEST_F(SweepTest, SettingsThatChangeTheProgramAreCompiledAnew) {
  const Outcome outcome = sweep({"model.depth=1,2", "seed=0..1", "--jobs", "1", "--cache-dir", folder_ / "cache"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("training steps: 2 compiled in .*, 2 loaded"));
  EXPECT_THAT(outcome.out, HasSubstr("\ncompiled for: model.depth=1 seed=0; model.depth=2 seed=0\n"));
  for (const char* run : {"model.depth=1 seed=0", "model.depth=2 seed=0"})
    EXPECT_THAT(outcome.err, ContainsRegex(std::string(run) + "   val/prec@1 [^\n]* of it compiling\n"));
  EXPECT_THAT(outcome.err, Not(ContainsRegex("seed=1   [^\n]* of it compiling")));
}

#ifdef TESSERA_HAS_TENSORBOARD
// TensorBoard's HParams tab compares the runs by the keys that the sweep varies.
TEST_F(SweepTest, IsComparedByTensorBoard) {
  ASSERT_EQ(sweep({"lr=1e-3,1e-2", "seed=0..1", "--jobs", "2"}).exit, 0);
  const Json shown = testing::read_hparams(folder_ / "runs/tiny-sweep-1");
  EXPECT_THAT(shown["differing"].get<std::vector<std::string>>(), ::testing::UnorderedElementsAre("optimizer.lr", "seed"))
      << shown;
  EXPECT_EQ(shown["runs"].size(), 4u);
  const Json& one = shown["runs"]["lr=1e-3_seed=1/tb"];
  EXPECT_EQ(one["hparams"]["seed"], 1);
  EXPECT_TRUE(one["metrics"].contains("val/prec@1")) << one;
}
#endif

TEST_F(SweepTest, ARunThatFailsIsNamedAndTheOthersGoOn) {
  const Outcome outcome = sweep({"optimizer.lr=1e-2,1e30", "--jobs", "1", "--workdir", "all", "total=12 steps"});
  EXPECT_EQ(outcome.exit, 5) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("[1/2] optimizer.lr=1e-2   val/prec@1 "),
                                 HasSubstr("[2/2] optimizer.lr=1e30   failed: the run diverged: ")));
  EXPECT_THAT(outcome.out, ContainsRegex("1e30 +- +1, 1 failed\n"));
  EXPECT_THAT(read_file(folder_ / "all/sweep.csv"), HasSubstr(",failed,"));
  EXPECT_THAT(outcome.err, HasSubstr("to train the runs that failed again: tessera sweep tiny.toml optimizer.lr=1e-2,1e30 "
                                     "'total=12 steps' --jobs 1 --workdir all\n"));
  const Outcome again = sweep({"optimizer.lr=1e-2,1e30", "total=12 steps", "--jobs", "1", "--workdir", "all"});
  EXPECT_EQ(again.exit, 5) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("[2/2] optimizer.lr=1e30   failed: "), Not(HasSubstr("] optimizer.lr=1e-2 "))));
}

TEST_F(SweepTest, SaysWhichPlatformWasChosen) {
  const Outcome outcome =
      run_program({"sweep", "tiny.toml", "seed=0..1", "--workdir", "all"}, folder_.path(), {{"TESSERA_PLATFORM", "auto"}});
  EXPECT_THAT(outcome.err, ContainsRegex("(platform [a-z]+: this machine has )|(; the CPU is used)"));
}

TEST_F(SweepTest, ASignalSavesAndTheSameCommandGoesOn) {
  const std::vector<std::string> words = {"sweep", "tiny.toml", "seed=0..2", "--jobs", "1", "total=400 steps", "--max=3"};
  RunningProgram run(words, folder_.path());
  const fs::path second = folder_ / "runs/tiny-sweep-1/seed=1/metrics.jsonl";
  while (run.running() && read_file(second).find("\"step\":10,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  run.send(SIGINT);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("the runs that train are saved"),
                                 HasSubstr("the same command goes on: tessera sweep tiny.toml seed=0..2 "
                                           "'total=400 steps' --jobs 1 --max=3\n")));
  EXPECT_FALSE(fs::exists(folder_ / "runs/tiny-sweep-1/seed=2"));
  const Outcome again = run_program(words, folder_.path());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("`runs/tiny-sweep-1` is this sweep and not finished"), Not(HasSubstr("] seed=0 "))));
  EXPECT_THAT(again.out, ContainsRegex("\n[0-9.]+ %.* 3\n"));
  EXPECT_THAT(sweep({"seed=5..6", "--workdir", "runs/tiny-sweep-1"}).err, HasSubstr("is another sweep"));
}

TEST_F(SweepTest, OneProcessTrainsASweep) {
  const std::vector<std::string> words = {"sweep", "tiny.toml", "seed=0..1", "--jobs", "1", "total=4000 steps"};
  RunningProgram run(words, folder_.path());
  const fs::path first = folder_ / "runs/tiny-sweep-1/seed=0/metrics.jsonl";
  while (run.running() && read_file(first).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Outcome second = run_program(words, folder_.path());
  EXPECT_EQ(second.exit, 2) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr("`runs/tiny-sweep-1` is in use by process "), Not(HasSubstr("failed"))));
  run.send(SIGINT);
  EXPECT_EQ(run.wait().exit, 130);
}

// As of `train`: schedulers start again what ends with 75.
TEST_F(SweepTest, SigtermEndsItWithTheCodeOfThoseThatGoOn) {
  RunningProgram run({"sweep", "tiny.toml", "seed=0..1", "--jobs", "1", "total=4000 steps"}, folder_.path());
  const fs::path first = folder_ / "runs/tiny-sweep-1/seed=0/metrics.jsonl";
  while (run.running() && read_file(first).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  run.send(SIGTERM);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 75) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("the same command goes on: tessera sweep"));
}

// What each run would keep in its own memory is decoded once for all of them.
TEST_F(SweepTest, RunsShareTheDecodedPicturesOfCachesInMemory) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no file system in memory";
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path()))  // new files are kept in no file
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  std::vector<std::string> words{
      "sweep", "tiny.toml", "seed=0..1", "data.cache=ram(1 MiB)", "eval.val.data.cache=ram(1 MiB)", "--jobs",
      "1",     "--workdir", "all"};
  const Outcome outcome = run_program(words, folder_.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const std::string said = "decoded pictures, which all runs share, are in ";
  const size_t begin = outcome.err.find(said);
  ASSERT_NE(begin, std::string::npos) << outcome.err;
  const size_t path = begin + said.size();
  const fs::path shared = outcome.err.substr(path, outcome.err.find(' ', path) - path);
  EXPECT_FALSE(fs::exists(shared)) << shared;
  EXPECT_THAT(read_file(folder_ / "all/seed=1/recipe.toml"), HasSubstr("cache = \"ram(1 MiB)\""));
  ASSERT_EQ(run_program({"train", "tiny.toml", "seed=1", "--workdir", "alone"}, folder_.path()).exit, 0);
  EXPECT_FALSE(weights("alone").empty());
  EXPECT_TRUE(weights("all/seed=1") == weights("alone"));

  fs::remove_all(folder_ / "all");
  words.push_back("total=4000 steps");
  RunningProgram run(words, folder_.path());
  while (run.running() && !(fs::exists(shared / "data.cache") && fs::exists(shared / "eval.val.data.cache")))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(run.running()) << run.err();
  run.send(SIGINT);
  EXPECT_EQ(run.wait().exit, 130);
  EXPECT_FALSE(fs::exists(shared));
}

// Else one table would compare runs of two recipes.
TEST_F(SweepTest, ARecipeThatIsEditedMeanwhileChangesNoRun) {
  std::string edited = tiny_recipe();
  edited.replace(edited.find("width = 16"), 10, "width = 8");
  const std::vector<std::string> words = {"sweep", "tiny.toml", "seed=0..2", "--jobs", "1", "--workdir", "all"};
  RunningProgram run(words, folder_.path());
  while (run.running() && !fs::exists(folder_ / "all/seed=0/recipe.toml"))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  write_file(folder_ / "tiny.toml", edited);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  for (const char* seed : {"seed=0", "seed=1", "seed=2"})
    EXPECT_THAT(read_file(folder_ / "all" / seed / "recipe.toml"), HasSubstr("width = 16")) << seed;

  const Outcome other = run_program(words, folder_.path());
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("`tiny.toml` has changed since the sweep in `all` began\n  model.width = 8   there: 16\n"));
  write_file(folder_ / "tiny.toml", "# a comment\n" + tiny_recipe());
  EXPECT_EQ(run_program(words, folder_.path()).exit, 0);

  // Without --workdir it is a sweep of its own, as with other words.
  RunningProgram first({"sweep", "tiny.toml", "seed=0..9", "total=400 steps", "--jobs", "1"}, folder_.path());
  while (first.running() && !fs::exists(folder_ / "runs/tiny-sweep-1/seed=0"))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  first.send(SIGINT);
  EXPECT_EQ(first.wait().exit, 130);
  write_file(folder_ / "tiny.toml", edited);
  const Outcome second = sweep({"seed=0..9", "total=400 steps", "--jobs", "1", "--max", "1"});
  EXPECT_THAT(second.err, HasSubstr("1 run in runs/tiny-sweep-2, 1 at a time")) << second.err;
}

// A recipe of the user's that has the name of the sweep's own.
TEST_F(SweepTest, ARecipeThatIsThereIsNotReplaced) {
  fs::create_directory(folder_ / "mine");
  write_file(folder_ / "mine/sweep.toml", "# mine\n");
  const Outcome outcome = run_program({"sweep", "tiny.toml", "seed=0..2", "--workdir", "mine"}, folder_.path());
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, HasSubstr("`mine/sweep.toml` is there already"));
  EXPECT_EQ(read_file(folder_ / "mine/sweep.toml"), "# mine\n");
}

// Eight settings at eta 2: 8 to step 4, 4 to step 8, 2 to step 14, 1 to step 32.
const std::vector<std::string> kHalving{"optimizer.weight_decay=0.01,0.02,0.03,0.04",
                                        "lr=1,1e-3",
                                        "total=32 steps",
                                        "eval.val.every=2 steps",
                                        "--halving",
                                        "--eta",
                                        "2",
                                        "--metric",
                                        "val/loss"};

// The rows of sweep.csv by the run's name, each by the column's.
std::map<std::string, std::map<std::string, std::string>> csv_of(const fs::path& path) {
  std::map<std::string, std::map<std::string, std::string>> rows;
  std::istringstream text(read_file(path));
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    std::vector<std::string> cells = split(line, ',');
    if (names.empty()) {
      names = cells;
      continue;
    }
    for (size_t i = 0; i < std::min(names.size(), cells.size()); ++i) rows[cells[0]][names[i]] = cells[i];
  }
  return rows;
}

// The run that halving trained to the end, and the recipe's words for it.
std::pair<std::string, std::vector<std::string>> winner_of(const fs::path& sweep) {
  for (auto& [name, row] : csv_of(sweep / "sweep.csv")) {
    if (row["state"] == "done")
      return {name, {"optimizer.weight_decay=" + row["optimizer.weight_decay"], "optimizer.lr=" + row["lr"]}};
  }
  return {};
}

TEST_F(SweepTest, HalvingStopsPoorRunsAndTheOthersAreAsIfTheyHadNeverPaused) {
  std::vector<std::string> words = kHalving;
  words.insert(words.end(), {"--jobs", "2", "--workdir", "half"});
  const Outcome outcome = sweep(words);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rungs 4, 8, 16, 32 steps"), HasSubstr("rung 1 of 4: 4 of 8 go on: "),
                                 HasSubstr("rung 3 of 4: 1 of 2 go on: "), HasSubstr("rung 4 of 4   [1/1] ")));
  std::map<std::string, int> steps;
  for (auto& [name, row] : csv_of(folder_ / "half/sweep.csv")) {
    ++steps[row["steps"] + " " + row["rung"] + " " + row["state"]];
    if (row["steps"] == "4") {
      EXPECT_EQ(row["lr"], "1") << "it is too high";
    }
  }
  EXPECT_EQ(steps, (std::map<std::string, int>{{"4 1 pruned", 4}, {"8 2 pruned", 2}, {"16 3 pruned", 1}, {"32 4 done", 1}}));
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("1e-3 .* 1 +4 of 4 +32\n"), ContainsRegex(" 1 .* 1 +1 of 4 +4\n"),
                                 HasSubstr("trained 80 of the 256 steps of all runs (31 %)")));
  EXPECT_THAT(read_file(folder_ / "half/sweep.svg"), AllOf(HasSubstr("trained to the end"), HasSubstr("pruned at rung 1")));
  EXPECT_THAT(read_file(folder_ / "half/report/index.html"), HasSubstr("_lr=1,"));

  const auto [name, recipe] = winner_of(folder_ / "half");
  std::vector<std::string> alone{"train", "tiny.toml", "total=32 steps", "eval.val.every=2 steps", "--workdir", "alone"};
  alone.insert(alone.end(), recipe.begin(), recipe.end());
  ASSERT_EQ(run_program(alone, folder_.path()).exit, 0);
  const std::string end = "checkpoints/step_000000032/state.safetensors";
  EXPECT_FALSE(read_file(folder_ / "alone" / end).empty());
  EXPECT_TRUE(read_file(folder_ / "alone" / end) == read_file(folder_ / "half" / name / end));
  EXPECT_EQ(timeless(curves_of(folder_ / "alone")), timeless(curves_of(folder_ / "half" / name)));
}

TEST_F(SweepTest, HalvingGoesOnAfterAKill) {
  std::vector<std::string> words = kHalving;
  words.insert(words.begin(), {"sweep", "tiny.toml"});
  words.insert(words.end(), {"--jobs", "1", "--workdir"});
  words.push_back("whole");
  ASSERT_EQ(run_program(words, folder_.path()).exit, 0);
  words.back() = "killed";
  for (const char* when : {"rung 1 of 4   [3/8]", "rung 2 of 4   [2/4]", "rung 2 of 4: ", "rung 4 of 4"}) {
    RunningProgram run(words, folder_.path());
    while (run.running() && run.err().find(when) == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run.send(SIGKILL);
    run.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the run that it trained gets SIGTERM, and saves
  }
  const Outcome outcome = run_program(words, folder_.path());
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("rung 1 of 4   [")));
  const auto timeless_csv = [&](const std::string& sweep) {
    auto rows = csv_of(folder_ / sweep / "sweep.csv");
    for (auto& [name, row] : rows) row.erase("seconds");
    return rows;
  };
  EXPECT_EQ(timeless_csv("killed"), timeless_csv("whole"));
  const std::string end = winner_of(folder_ / "whole").first + "/checkpoints/step_000000032/state.safetensors";
  EXPECT_FALSE(read_file(folder_ / "whole" / end).empty());
  EXPECT_TRUE(read_file(folder_ / "killed" / end) == read_file(folder_ / "whole" / end));
  words.push_back("--min-budget=25 %");
  EXPECT_THAT(run_program(words, folder_.path()).err, HasSubstr("`killed` is another sweep: tessera sweep tiny.toml "));
}

TEST_F(SweepTest, HalvingPassesOverARunThatFails) {
  const Outcome outcome = sweep({"optimizer.lr=1e30,1,1e-3", "total=12 steps", "eval.val.every=2 steps", "--halving", "--jobs",
                                 "1", "--workdir", "all", "--metric", "val/loss"});
  EXPECT_EQ(outcome.exit, 5) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("[1/3] optimizer.lr=1e30   failed: the run diverged: "),
                                 HasSubstr("rung 1 of 2: 1 of 3 go on: optimizer.lr=1e-3\n")));
  auto rows = csv_of(folder_ / "all/sweep.csv");
  EXPECT_EQ(rows["optimizer.lr=1e30"]["state"], "failed");
  EXPECT_EQ(rows["optimizer.lr=1"]["state"], "pruned");
  EXPECT_EQ(rows["optimizer.lr=1e-3"]["steps"], "12");
}

TEST_F(SweepTest, MistakesAreKnownBeforeAnythingIsTrained) {
  const auto error = [&](const std::vector<std::string>& words) {
    const Outcome outcome = sweep(words);
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({}), HasSubstr("needs a key with several values"));
  EXPECT_THAT(error({"lr=[1e-3,1e-4]"}), HasSubstr("values have commas between them, lr=1e-3,1e-4;"));
  EXPECT_THAT(error({"optimizer.weight_decay=0.1..0.3"}),
              AllOf(HasSubstr("has one value, as it is written"), HasSubstr("optimizer.weight_decay=0.1,0.3;")));
  EXPECT_THAT(error({"seed=0.."}), HasSubstr("seed=0,…; whole numbers may be a range, seed=0..4"));
  EXPECT_THAT(error({"data.source=wds(x-{000..127}.tar)"}), HasSubstr("needs a key with several values"));
  EXPECT_THAT(error({"seed=0..1", "modell.width=8,16"}), HasSubstr("unknown key `modell.width`"));
  EXPECT_THAT(error({"model.heads=2,5"}), HasSubstr("5"));
  EXPECT_THAT(error({"seed=0,1", "seed=2,3"}), HasSubstr("`seed` is given twice"));
  EXPECT_THAT(error({"seed=0..1", "seed=2"}), HasSubstr("`seed` is given twice, once with one value"));
  EXPECT_THAT(error({"lr=1e-3", "lr=1e-3,3e-3"}), HasSubstr("`lr` is given twice, once with one value"));
  for (const char* rate : {"lr=1e-3", "lr=1e-3,3e-3"}) {
    EXPECT_THAT(error({rate, "optimizer.lr=1e-2,1e-1"}),
                HasSubstr("`lr` and several values of `optimizer.lr` both say the rate"));
  }
  const Outcome base = sweep({"lr=1e-3,3e-3", "optimizer.lr=cosine(1e-2)", "--dry-run"});
  EXPECT_EQ(base.exit, 0) << base.err << "one schedule with several rates";
  EXPECT_THAT(error({"seed=0..1", "--metric", "val/prec@2"}), HasSubstr("did you mean `val/prec@1`?"));
  EXPECT_THAT(error({"seed=0..1", "--random"}), HasSubstr("say how many"));
  EXPECT_THAT(error({"seed=0..1", "--eta", "2"}), HasSubstr("--eta is of --halving"));
  EXPECT_THAT(error({"lr=1e-3,1e-2", "--halving", "--eta", "1"}), HasSubstr("--eta"));
  EXPECT_THAT(error({"seed=0..8", "--halving"}), HasSubstr("have the same but for seed or fold"));
  EXPECT_THAT(error({"total=6 steps,12 steps", "--halving"}), HasSubstr("give `total` one value"));
  EXPECT_THAT(error({"lr=1e-3,1e-2", "--halving", "eval.val.every=100 %"}),
              HasSubstr("val/prec@1 is not measured before the end"));
  EXPECT_THAT(error({"lr=1e-3,1e-2", "--halving", "--min-budget", "2 weeks"}), HasSubstr("--min-budget"));
  EXPECT_THAT(error({"lr=1e-3,1e-2", "--halving", "--min-budget", "6 steps"}), HasSubstr("is all of a run of 6 steps"));
  const Outcome listed = sweep({"seed=0..9", "--max", "2", "--random", "--dry-run"});
  EXPECT_EQ(std::ranges::count(listed.out, '\n'), 2) << listed.out;
}

TEST_F(SweepTest, EachRunHasItsDevices) {
  const Outcome outcome = sweep({"seed=0..1", "--devices-per-run", "2", "--jobs", "1", "--workdir", "all"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  for (const char* run : {"all/seed=0", "all/seed=1"})
    EXPECT_EQ(Json::parse(read_file(folder_ / run / "run.json"))["devices"], 2) << run;
}

TEST_F(SweepTest, TooFewDevicesAreSaidBeforeAnythingIsTrained) {
  std::string visible, chips;
  const auto error = [&](std::vector<std::string> words, int exit) {
    words.insert(words.begin(), {"sweep", "tiny.toml", "seed=0..5"});
    const Outcome outcome =
        run_program(words, folder_.path(), {{"CUDA_VISIBLE_DEVICES", visible}, {"TPU_VISIBLE_CHIPS", chips}});
    EXPECT_EQ(outcome.exit, exit) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"--devices", "2", "--devices-per-run", "2"}, 2), HasSubstr("give one of them"));
  EXPECT_THAT(error({"--platform", "tpu", "--devices-per-run", "1"}, 2), HasSubstr("there is no TPU chip"));
  EXPECT_THAT(error({"--platform", "tpu", "--jobs", "2"}, 2), HasSubstr("there is no TPU chip"));
  chips = "0,1,2,3";
  EXPECT_THAT(error({"data.batch=6", "eval.val.batch=6", "--platform", "tpu", "--devices-per-run", "3"}, 2),
              HasSubstr("1, 2, 4 or all 4 of a machine"));
  EXPECT_THAT(error({"--platform", "tpu", "--plugin", "nowhere"}, 4), HasSubstr("there is no plugin at nowhere"));
  EXPECT_THAT(error({"--platform", "cuda"}, 2), HasSubstr("there is no GPU that this process may use"));
  visible = "3,4,5";
  EXPECT_THAT(error({"--platform", "cuda", "--devices-per-run", "4"}, 2),
              HasSubstr("each run has 4 GPUs, and there are 3 GPUs"));
  EXPECT_THAT(error({"--platform", "cuda", "--devices", "2", "--jobs", "2"}, 2), HasSubstr("give 1 or less"));
  EXPECT_THAT(error({"--platform", "cuda", "--plugin", "nowhere"}, 4), HasSubstr("there is no plugin at nowhere"));
}

}  // namespace
}  // namespace tessera::cli
