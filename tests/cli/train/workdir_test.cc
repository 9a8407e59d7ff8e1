// What the program does with a workdir that somebody has changed between two starts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST_F(ChangedWorkdir, WhatLiesInTheWayIsNamedWithWhatToDo) {
  for (const std::string name : {"metrics.jsonl", "summary.csv", "recipe.toml", "data_names.txt"}) {
    const fs::path path = folder_ / "run" / name;
    fs::rename(path, folder_ / "aside");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Outcome again = train({"total=8 steps"});
    EXPECT_EQ(again.exit, 3) << name;
    EXPECT_THAT(again.err, AllOf(HasSubstr("`run/" + name + "` is a named pipe"), HasSubstr("\nhelp: remove it"))) << name;
    fs::rename(folder_ / "aside", path);
  }
  ASSERT_EQ(::mkfifo((folder_ / "pipe.toml").c_str(), 0600), 0);
  const Outcome recipe = run_program({"train", "pipe.toml"}, folder_.path());
  EXPECT_EQ(recipe.exit, 2);
  EXPECT_THAT(recipe.err, AllOf(HasSubstr("`pipe.toml` is a pipe or a device"), HasSubstr("\nhelp: ")));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"predict", "--from", "run/checkpoints/step_000000006", "val"},
        {"export", "--from", "run/checkpoints/step_000000006", "--to", "out"}}) {
    std::string bytes = read_file(step("000000006") / "state.safetensors");
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(step("000000006") / "state.safetensors", bytes);
    const Outcome damaged = run_program(words, folder_.path());
    EXPECT_EQ(damaged.exit, 3);
    EXPECT_THAT(damaged.err, AllOf(HasSubstr("its checksum does not fit"), HasSubstr("\nhelp: copy it again")));
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(step("000000006") / "state.safetensors", bytes);
  }
  fs::rename(folder_ / "run/checkpoints", folder_ / "aside");
  write_file(folder_ / "run/checkpoints", "x");
  const Outcome file = train({"total=8 steps"});
  EXPECT_EQ(file.exit, 3);
  EXPECT_THAT(file.err, AllOf(HasSubstr("Not a directory"), HasSubstr("\nhelp: a file lies in the place of a directory")));
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
