// The search for a learning rate, as a user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class LrFind : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 8);
    write_images(folder_ / "val", 4);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  Outcome find(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"lr-find", "tiny.toml"};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args, folder_.path());
  }
  TempFolder folder_;
};

TEST_F(LrFind, SuggestsRatesAndTouchesNoRun) {
  ASSERT_EQ(run_program({"train", "tiny.toml"}, folder_.path()).exit, 0);
  const fs::file_time_type before = fs::last_write_time(folder_ / "runs/tiny-1/metrics.jsonl");
  const Outcome outcome = find({"--seeds", "3", "data.batch=16"});  // all images: the loss falls smoothly
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("seed +valley +steep +min / 10 +slide\n3 .*\n4 .*\n5 .*\nmedian "));
  EXPECT_THAT(outcome.out, HasSubstr("plot    runs/tiny-lr-1/lr.svg\nnumbers runs/tiny-lr-1/lr.csv\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("next    tessera train tiny.toml data.batch=16 optimizer.lr=[0-9.e-]+\n"));
  EXPECT_THAT(outcome.err, HasSubstr("3 searches of 100 steps from 1e-07 to 10; one program"));
  EXPECT_THAT(read_file(folder_ / "runs/tiny-lr-1/lr.svg"),
              AllOf(HasSubstr("seed 5"), HasSubstr("valley: "), HasSubstr("min / 10: "), HasSubstr(">1e-04<")));
  EXPECT_EQ(fs::last_write_time(folder_ / "runs/tiny-1/metrics.jsonl"), before);
  EXPECT_FALSE(fs::exists(folder_ / "runs/tiny-2"));
  EXPECT_EQ(find().exit, 0);
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny-lr-2/lr.svg"));
  // A directory beside the runs is none of them.
  EXPECT_EQ(run_program({"train", "tiny.toml"}, folder_.path()).exit, 0);
  EXPECT_TRUE(fs::exists(folder_ / "runs/tiny-2/run.json"));
}

// One object; the numbers are those of the recipe's own training under that rate.
TEST_F(LrFind, SaysTheSameInNumbers) {
  const std::vector<Json> json = find({"--json", "--steps", "40", "--from", "1e-5", "--to=1", "--out", "found"}).json();
  ASSERT_EQ(json.size(), 1u);
  ASSERT_EQ(json[0]["searches"].size(), 1u);
  const Json& search = json[0]["searches"][0];
  EXPECT_EQ(search["seed"], 3);
  EXPECT_NEAR(search["lr"][0].get<double>(), 1e-5, 1e-15);
  EXPECT_NEAR(search["lr"][20].get<double>(), 1e-5 * std::sqrt(1e5), 1e-9);
  EXPECT_EQ(json[0]["suggestions"]["valley"], search["suggestions"]["valley"]);
  const Outcome train = run_program({"train", "tiny.toml", "--workdir", "run", "total=40 steps", "log=1 steps",
                                     "eval.val.every=40 steps", "optimizer.lr=exponential(1e-5, end=1, length=40 steps)"},
                                    folder_.path());
  std::istringstream lines(read_file(folder_ / "run/metrics.jsonl"));
  size_t step = 0;
  for (std::string line; std::getline(lines, line) && step < search["loss"].size(); ++step) {
    const Json row = Json::parse(line);
    EXPECT_FLOAT_EQ(search["loss"][step].get<float>(), row["training_loss"].get<float>()) << step;
    EXPECT_NEAR(search["lr"][step].get<double>() / row["lr"].get<double>(), 1, 1e-5) << step;
  }
  EXPECT_GE(step, 20u);
  std::istringstream csv(read_file(folder_ / "found/lr.csv"));
  std::string head, first;
  std::getline(csv, head);
  std::getline(csv, first);
  EXPECT_EQ(head, "seed,step,lr,loss,smooth_loss");
  EXPECT_TRUE(first.starts_with("3,1,1e-05,")) << first;
}

// A rate is that of the settings that it was found with.
TEST_F(LrFind, TheNextCommandHasTheSettingsOfTheSearch) {
  const Outcome outcome =
      find({"data.batch=16", "optimizer.weight_decay=0", "optimizer.lr=cosine(1)", "total=4 epochs", "--out", "found"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              ContainsRegex("next    tessera train tiny.toml data.batch=16 optimizer.weight_decay=0 'total=4 epochs' "
                            "'optimizer.lr=cosine\\([0-9.e-]+\\)'\n"));
  const Outcome rate = find({"data.batch=16", "optimizer.weight_decay=0", "lr=1", "total=4 epochs", "--out", "again"});
  EXPECT_THAT(rate.out, ContainsRegex("tessera train tiny.toml data.batch=16 optimizer.weight_decay=0 'total=4 epochs' "
                                      "optimizer.lr=[0-9.e-]+\n"))
      << rate.err << "not that of the command, which is no part of the search";
}

TEST_F(LrFind, SaysWhereThereIsNoValley) {
  const Outcome outcome = find({"--from", "1e-9", "--to", "1e-8", "--steps", "30", "data.batch=16"});  // all images
  EXPECT_EQ(outcome.exit, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the loss fell by less than 1 %: no clear valley"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tessera train"))) << "a rate from such a curve is no advice";
}

TEST_F(LrFind, MistakesTeach) {
  const Outcome bounds = find({"--from", "1", "--to", "0.1"});
  EXPECT_EQ(bounds.exit, 2);
  EXPECT_THAT(bounds.err, HasSubstr("`--to` is 0.1, which is not above `--from`, 1"));
  EXPECT_THAT(find({"--from", "0"}).err, HasSubstr("is a learning rate"));
  EXPECT_THAT(find({"--steps", "5"}).err, HasSubstr("at least 20"));
  EXPECT_THAT(find({"data.batch=100"}).err, HasSubstr("take a batch of at most 16"));
  const Outcome resumed = find({"resume=run"});  // it would count for nothing
  EXPECT_EQ(resumed.exit, 2);
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("`resume` goes on from a step of another run"), HasSubstr("model_init.from=RUN")));
  EXPECT_THAT(run_program({"lr-find"}).err, HasSubstr("needs a recipe"));
  const Outcome file = find({"--out", "lr.svg"});
  EXPECT_EQ(file.exit, 2);
  EXPECT_THAT(file.err, AllOf(HasSubstr("`lr.svg` would be a directory"), HasSubstr("name it without the ending")));
  EXPECT_FALSE(fs::exists(folder_ / "lr.svg"));
}

}  // namespace
}  // namespace tessera::cli
