// tessera sweep: many runs of a recipe.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/run_program.h"

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
  EXPECT_THAT(outcome.out, ContainsRegex("training steps: 1 compiled in .*, 3 loaded\n"));
  const std::string csv = read_file(folder_ / "runs/tiny-sweep-1/sweep.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5) << csv;
  EXPECT_THAT(csv, AllOf(HasSubstr("run,lr,seed,state,best val/prec@1,"), HasSubstr("lr=1e-2_seed=1,1e-2,1,done,")));
  EXPECT_THAT(read_file(folder_ / "runs/tiny-sweep-1/sweep.svg"), HasSubstr("val/prec@1"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny-sweep-1/report/index.html"));
  ASSERT_EQ(run_program({"train", "tiny.toml", "optimizer.lr=1e-3", "seed=1", "--workdir", "alone"}, folder_.path()).exit, 0);
  EXPECT_FALSE(weights("alone").empty());
  EXPECT_TRUE(weights("runs/tiny-sweep-1/lr=1e-3_seed=1") == weights("alone"));
}

TEST_F(SweepTest, ARunThatFailsIsNamedAndTheOthersGoOn) {
  const Outcome outcome = sweep({"optimizer.lr=1e-2,1e30", "--jobs", "1", "--workdir", "all", "total=12 steps"});
  EXPECT_EQ(outcome.exit, 5) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("[1/2] optimizer.lr=1e-2   val/prec@1 "),
                                 HasSubstr("[2/2] optimizer.lr=1e30   failed: the run diverged: ")));
  EXPECT_THAT(outcome.out, ContainsRegex("1e30 +- +1, 1 failed\n"));
  EXPECT_THAT(read_file(folder_ / "all/sweep.csv"), HasSubstr(",failed,"));
}

TEST_F(SweepTest, ASignalSavesAndTheSameCommandGoesOn) {
  const std::vector<std::string> words = {"sweep", "tiny.toml", "seed=0..2", "--jobs", "1", "total=400 steps"};
  RunningProgram run(words, folder_.path());
  const fs::path second = folder_ / "runs/tiny-sweep-1/seed=1/metrics.jsonl";
  while (run.running() && read_file(second).find("\"step\":10,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  run.send(SIGINT);
  const Outcome stopped = run.wait();
  EXPECT_EQ(stopped.exit, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("the runs that train are saved"), HasSubstr("the same command goes on")));
  EXPECT_FALSE(fs::exists(folder_ / "runs/tiny-sweep-1/seed=2"));
  const Outcome again = run_program(words, folder_.path());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("`runs/tiny-sweep-1` is this sweep and not finished"), Not(HasSubstr("] seed=0 "))));
  EXPECT_THAT(again.out, ContainsRegex("\n[0-9.]+ %.* 3\n"));
  EXPECT_THAT(sweep({"seed=5..6", "--workdir", "runs/tiny-sweep-1"}).err, HasSubstr("is another sweep"));
}

TEST_F(SweepTest, MistakesAreKnownBeforeAnythingIsTrained) {
  const auto error = [&](const std::vector<std::string>& words) {
    const Outcome outcome = sweep(words);
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({}), HasSubstr("needs a key with several values"));
  EXPECT_THAT(error({"seed=0..1", "modell.width=8,16"}), HasSubstr("unknown key `modell.width`"));
  EXPECT_THAT(error({"model.heads=2,5"}), HasSubstr("5"));
  EXPECT_THAT(error({"seed=0,1", "seed=2,3"}), HasSubstr("`seed` is given twice"));
  EXPECT_THAT(error({"seed=0..1", "--metric", "val/prec@2"}), HasSubstr("did you mean `val/prec@1`?"));
  EXPECT_THAT(error({"seed=0..1", "--random"}), HasSubstr("say how many"));
  const Outcome listed = sweep({"seed=0..9", "--max", "2", "--random", "--dry-run"});
  EXPECT_EQ(std::ranges::count(listed.out, '\n'), 2) << listed.out;
}

}  // namespace
}  // namespace tessera::cli
