// What the program does with a workdir that somebody has changed between two starts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ChangedWorkdir : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 8);
    write_images(folder_ / "val", 4);
    write_file(folder_ / "tiny.toml", tiny_recipe());
    ASSERT_EQ(train().exit, 0);
  }
  Outcome train(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", "run"};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args, folder_.path());
  }
  fs::path step(const std::string& name) const { return folder_ / ("run/checkpoints/step_" + name); }

  TempFolder folder_;
};

TEST_F(ChangedWorkdir, LinksLeadToNothingThatIsRemoved) {
  write_file(folder_ / "precious/thesis.tex", "x");
  write_file(folder_ / "precious/state.json", "x");
  fs::remove_all(step("000000006"));
  for (const char* name : {"000000006.tmp-999999999", "000000006", "000000001"}) {
    fs::create_directory_symlink(folder_ / "precious", step(name));
  }
  const Outcome again = train({"checkpoint.keep=1"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("step_000000006.damaged"));
  EXPECT_EQ(read_file(folder_ / "precious/thesis.tex"), "x");
  EXPECT_EQ(read_file(folder_ / "precious/state.json"), "x");
  EXPECT_FALSE(fs::is_symlink(step("000000001")));
  EXPECT_FALSE(fs::is_symlink(step("000000006.tmp-999999999")));
}

TEST_F(ChangedWorkdir, LinksInPlaceOfFilesThatGrowAreRefused) {
  const std::string thesis = "a last line without its end";  // which a log would take for one that was cut off
  write_file(folder_ / "thesis.tex", thesis);
  for (const std::string name : {"log.txt", "metrics.jsonl", "summary.csv"}) {
    const fs::path path = folder_ / "run" / name;
    fs::rename(path, folder_ / "aside");
    fs::create_symlink(folder_ / "thesis.tex", path);
    const Outcome again = train({"total=8 steps"});
    EXPECT_EQ(again.exit, 2) << name;
    EXPECT_THAT(again.err, AllOf(HasSubstr("`run/" + name + "` is a symbolic link"), HasSubstr("remove the link")));
    EXPECT_EQ(read_file(folder_ / "thesis.tex"), thesis) << name;
    fs::rename(folder_ / "aside", path);
  }
  EXPECT_EQ(train({"total=8 steps"}).exit, 0);
}

TEST_F(ChangedWorkdir, LinksInPlaceOfItsFoldersAreRefused) {
  for (const std::string name : {"bad_batches", "evals", "plugins", "report", "tb", "wandb"}) {
    const fs::path path = folder_ / "run" / name, other = folder_ / "other" / name;
    write_file(other / "index.html", "precious");
    if (fs::exists(path)) fs::rename(path, folder_ / "aside");
    fs::create_directory_symlink(other, path);
    const Outcome again = train({"total=8 steps"});
    EXPECT_EQ(again.exit, 2) << name;
    EXPECT_THAT(again.err, AllOf(HasSubstr("`run/" + name + "` is a symbolic link"), HasSubstr("help: remove the link")));
    EXPECT_EQ(std::distance(fs::directory_iterator(other), {}), 1) << name;
    EXPECT_EQ(read_file(other / "index.html"), "precious");
    if (name == "report") {
      const Outcome report = run_program({"report", "run"}, folder_.path());
      EXPECT_EQ(report.exit, 2);
      EXPECT_THAT(report.err, AllOf(HasSubstr("`run/report` is a symbolic link"), HasSubstr("help: remove the link")));
      EXPECT_EQ(read_file(other / "index.html"), "precious");
      // A directory that the user names may be one.
      EXPECT_EQ(run_program({"report", "run", "--out", "run/report"}, folder_.path()).exit, 0);
      EXPECT_NE(read_file(other / "index.html"), "precious");
    }
    fs::remove(path);
    if (fs::exists(folder_ / "aside")) fs::rename(folder_ / "aside", path);
  }
  EXPECT_EQ(train({"total=8 steps"}).exit, 0);
}

TEST_F(ChangedWorkdir, ALinkThatLogFileNamesIsFollowed) {
  write_file(folder_ / "elsewhere/log.txt", "");
  fs::create_symlink(folder_ / "elsewhere/log.txt", folder_ / "link.txt");
  EXPECT_EQ(train({"total=8 steps", "--log-file", "link.txt"}).exit, 0);
  EXPECT_THAT(read_file(folder_ / "elsewhere/log.txt"), HasSubstr("Z start    "));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.txt"));
}

TEST_F(ChangedWorkdir, LostCheckpointsAreNotTrainedOver) {
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  fs::remove_all(folder_ / "run/checkpoints");
  const Outcome again = train();
  EXPECT_EQ(again.exit, 3);
  EXPECT_THAT(again.err, AllOf(HasSubstr("the checkpoints of this run are gone"), HasSubstr("to start afresh")));
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), metrics);
}

TEST_F(ChangedWorkdir, AnotherRunsCheckpointIsRefused) {
  ASSERT_EQ(run_program({"train", "tiny.toml", "--workdir", "other", "seed=4"}, folder_.path()).exit, 0);
  fs::remove_all(step("000000006"));
  fs::copy(folder_ / "other/checkpoints/step_000000006", step("000000006"), fs::copy_options::recursive);
  const Outcome again = train();
  EXPECT_EQ(again.exit, 3);
  EXPECT_THAT(again.err, AllOf(HasSubstr("another run's"), HasSubstr("seed = 4   here: 3")));
}

}  // namespace
}  // namespace tessera::cli
