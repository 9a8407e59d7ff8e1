// tessera report, and the report that a run leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/finished_run.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ReportCommand : public FinishedRun<ReportCommand> {
 protected:
  static std::string page(const std::string& path) { return read_file(*folder_ / path); }
};

TEST_F(ReportCommand, ARunLeavesItsReport) {
  ASSERT_EQ(trained_->exit, 0) << trained_->err;
  EXPECT_THAT(trained_->out, HasSubstr("report      run/report/index.html\n"));
  const std::string html = page("run/report/index.html");
  EXPECT_THAT(html,
              AllOf(HasSubstr("The run ended as planned, after 6 steps."), HasSubstr("tessera train --workdir run tiny.toml"),
                    HasSubstr("data:image/png;base64,"), Not(HasSubstr("Not shown"))));
  // The command makes the same of the same run.
  const Outcome again = tessera({"report", "run", "--out", "again", "--png"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(again.out, "again/index.html\n");
  EXPECT_EQ(page("again/index.html"), html);
  for (const char* name : {"val_classes.csv", "val_confusion.csv", "val_worst.csv"}) {
    EXPECT_EQ(page(std::string("again/") + name), page(std::string("run/report/") + name)) << name;
    EXPECT_NE(page(std::string("again/") + name), "") << name;
  }
  EXPECT_THAT(page("again/train.png"), StartsWith("\x89PNG"));
}

TEST_F(ReportCommand, RefusesWhatIsNoRun) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& why) {
    std::vector<std::string> args = {"report"};
    args.insert(args.end(), words.begin(), words.end());
    const Outcome outcome = tessera(args);
    EXPECT_EQ(outcome.exit, 2) << why;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("error: "), HasSubstr(why)));
  };
  refused({}, "needs the directory of a run");
  refused({"runs/nothing"}, "there is no run `runs/nothing`");
  refused({"train"}, "`train` holds no run");
  refused({"tiny.toml"}, "`tiny.toml` is a file");
  refused({"run", "./run/"}, "named twice");
  EXPECT_FALSE(fs::exists(*folder_ / "train/report"));
}

TEST_F(ReportCommand, OfTheSameNameRunsAreToldApart) {
  for (const char* where : {"one", "two"}) {
    fs::create_directories(*folder_ / where);
    fs::copy(*folder_ / "run", *folder_ / where / "run", fs::copy_options::recursive);
  }
  const Outcome outcome = tessera({"report", "one/run", "two/run", "--out", "both"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(page("both/index.html"), AllOf(HasSubstr("<h1>one/run, two/run</h1>"), HasSubstr("The recipes are the same.")));
}

TEST_F(ReportCommand, AReportThatCanNotBeWrittenIsAWarningAndNoMore) {
  ASSERT_EQ(tessera({"train", "tiny.toml", "--workdir", "blocked", "total=2 steps", "--no-report"}).exit, 0);
  EXPECT_FALSE(fs::exists(*folder_ / "blocked/report"));
  write_file(*folder_ / "blocked/report", "in the way");
  const Outcome more = tessera({"train", "tiny.toml", "--workdir", "blocked", "total=4 steps"});
  EXPECT_EQ(more.exit, 0) << more.err;
  const size_t first = more.err.find("no report was written");
  EXPECT_NE(first, std::string::npos) << more.err;
  EXPECT_EQ(more.err.find("no report was written", first + 1), std::string::npos);
  EXPECT_THAT(more.out, Not(HasSubstr("report")));
  EXPECT_EQ(read_file(*folder_ / "blocked/report"), "in the way");
  EXPECT_EQ(tessera({"report", "blocked"}).exit, 3);
  // The finished run writes it when it can.
  fs::remove(*folder_ / "blocked/report");
  EXPECT_THAT(tessera({"train", "tiny.toml", "--workdir", "blocked", "total=4 steps"}).out,
              HasSubstr("blocked/report/index.html\n"));
}

// One of an earlier start does not say what the run came to.
TEST_F(ReportCommand, OnlyOneThatIsOfTheRunAsItIsIsNamed) {
  const auto train = [](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train", "tiny.toml", "--workdir", "older"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = tessera(args);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("metrics     older/metrics.jsonl\n"));
    return outcome.out;
  };
  const std::string line = "report      older/report/index.html\n";
  EXPECT_THAT(train({"total=2 steps"}), HasSubstr(line));
  EXPECT_THAT(train({"total=2 steps"}), HasSubstr(line)) << "of the finished run";
  EXPECT_THAT(train({"total=6 steps", "--until", "4 steps"}), Not(HasSubstr(line)));
  EXPECT_THAT(train({"total=6 steps", "--no-report"}), Not(HasSubstr(line)));
  EXPECT_THAT(train({"total=8 steps"}), HasSubstr(line));
}

TEST_F(ReportCommand, ARunThatDivergesLeavesOneAndOneThatIsStoppedNone) {
  const Outcome diverged = tessera({"train", "tiny.toml", "--workdir", "diverged", "optimizer.lr=1e38", "log=1 step"});
  ASSERT_EQ(diverged.exit, 5) << diverged.err;
  EXPECT_THAT(page("diverged/report/index.html"), AllOf(HasSubstr("The run diverged"), HasSubstr("class=\"trouble\"")));

  RunningProgram program({"train", "tiny.toml", "total=100000 epochs", "--workdir", "long"}, folder_->path());
  while (program.running() && !fs::exists(*folder_ / "long/metrics.jsonl")) ::usleep(10'000);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().exit, 75);
  EXPECT_FALSE(fs::exists(*folder_ / "long/report"));
  EXPECT_EQ(tessera({"report", "long"}).exit, 0);
  EXPECT_THAT(page("long/report/index.html"),
              ContainsRegex("stopped early by SIGTERM, after [0-9,]+ steps? \\(0\u00a0% of its length\\)"));
}

}  // namespace
}  // namespace tessera::cli
