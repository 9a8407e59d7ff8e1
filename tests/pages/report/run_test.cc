#include "pages/report/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "pages/report/made_run.h"

namespace tessera::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_run;
using ::testing::Pair;
using testing::spill;
using testing::TempDir;

std::string failure(const std::vector<std::string>& paths, Exit code) {
  try {
    read_runs(paths);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(ReadRuns, TakesAllThatARunLeaves) {
  const TempDir dir;
  const SavedRun run = read_runs({make_run(dir.path(), "one", {"cat", "dog"})})[0];
  EXPECT_EQ(run.name, "one");
  EXPECT_EQ(run.rows.size(), 5u);
  ASSERT_EQ(run.evaluations.size(), 1u);
  EXPECT_THAT(run.evaluations[0].classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(run.facts->command, "tessera train x.toml");
  EXPECT_THAT(run.problems, IsEmpty());
  EXPECT_THAT(evaluator_names(run), ElementsAre("val"));
}

TEST(ReadRuns, RefusesWhatIsNoRun) {
  const TempDir dir;
  EXPECT_THAT(failure({dir / "nowhere"}, Exit::kUsage), HasSubstr("there is no run"));
  EXPECT_THAT(failure({dir.path()}, Exit::kUsage), HasSubstr("neither recipe.toml nor metrics.jsonl"));
  spill(dir / "file", "x");
  EXPECT_THAT(failure({dir / "file"}, Exit::kUsage), HasSubstr("is a file"));
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  EXPECT_THAT(failure({run, dir / "one/../one/"}, Exit::kUsage), HasSubstr("named twice"));
  // The directory of a sweep.
  EXPECT_THAT(failure({dir.path()}, Exit::kUsage), HasSubstr("tessera board " + dir.path() + " shows the runs below it"));
  std::filesystem::create_directory(dir / "report");
  spill(dir / "report/index.html", "x");
  EXPECT_THAT(failure({dir.path()}, Exit::kUsage),
              HasSubstr("its report is " + (dir / "report/index.html") + "; tessera board"));
  std::filesystem::remove_all(run);
  std::filesystem::create_directories(run + "/recipe.toml");
  EXPECT_THAT(failure({run}, Exit::kData), HasSubstr("nothing of the run"));
}

TEST(ReadRuns, DamagedFilesAreProblemsAndNoFailures) {
  const TempDir dir;
  const std::string path = make_run(dir.path(), "one", {"cat", "dog"});
  spill(path + "/run.json", "{\"state\": 7}");
  spill(path + "/evals/val.last.json", "{");
  spill(path + "/evals/a.last.json", testing::slurp(path + "/recipe.toml"));
  const SavedRun run = read_runs({path})[0];
  EXPECT_FALSE(run.facts);
  EXPECT_THAT(run.evaluations, IsEmpty());
  ASSERT_EQ(run.problems.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(run.problems[i], HasSubstr(path + (i == 0   ? "/run.json"
                                                   : i == 1 ? "/evals/a.last.json"
                                                            : "/evals/val.last.json")));
  }
  EXPECT_EQ(main_score(run, "val")->score, "prec@1") << "as runs of older versions leave it";
}

TEST(ReadRuns, RecipesAndMeasurementsThatMakeNoSenseAreNamed) {
  const TempDir dir;
  const std::string path = make_run(dir.path(), "one", {"cat", "dog"});
  spill(path + "/metrics.jsonl", testing::slurp(path + "/metrics.jsonl") + "{\"step\":120");
  EXPECT_THAT(read_runs({path})[0].problems, IsEmpty()) << "the last line is being written";
  spill(path + "/recipe.toml", "seed = = 1");
  spill(path + "/metrics.jsonl", "no\n\nmetrics\n");
  const SavedRun run = read_runs({path})[0];
  ASSERT_EQ(run.problems.size(), 2u);
  EXPECT_THAT(run.problems[0], HasSubstr(path + "/recipe.toml"));
  EXPECT_THAT(run.problems[1], HasSubstr(path + "/metrics.jsonl`: 2 lines can't be read"));
}

TEST(ReadRuns, AFinishedRunWithoutMeasurementsIsNamed) {
  const TempDir dir;
  const std::string path = make_run(dir.path(), "one", {"cat", "dog"});
  spill(path + "/metrics.jsonl", "{\"step\":1");
  const SavedRun run = read_runs({path})[0];
  ASSERT_EQ(run.problems.size(), 1u);
  EXPECT_THAT(run.problems[0], HasSubstr(path + "/metrics.jsonl` has no measurements"));
}

TEST(ReadRuns, RunsOfTheSameNameAreToldApart) {
  const TempDir dir;
  const auto names = [&](const std::vector<std::string>& paths) {
    std::vector<std::string> all, out;
    for (const std::string& path : paths) all.push_back(make_run(dir.path(), path, {"cat", "dog"}) + "//");
    for (const SavedRun& run : read_runs(all)) out.push_back(run.name);
    return out;
  };
  EXPECT_THAT(names({"a/one", "a/two"}), ElementsAre("one", "two"));
  EXPECT_THAT(names({"a/one", "b/one", "b/two"}), ElementsAre("a/one", "b/one", "b/two"));
  EXPECT_THAT(names({"a/x/one", "b/x/one"}), ElementsAre("a/x/one", "b/x/one"));
}

TEST(ReadRuns, EvaluatorsStandAsInTheRecipe) {
  const TempDir dir;
  const std::string path = make_run(dir.path(), "one", {"cat", "dog"});
  spill(path + "/recipe.toml", testing::recipe_text(dir.path()) + "[eval.again]\ntype = \"mean\"\n");
  monitor::MetricWriter(path).write(
      120, {{"again/count", int64_t{3}}, {"again/loss", 1.0}, {"val_ema/count", int64_t{3}}, {"aa/count", int64_t{3}}});
  for (const char* name : {"again", "val_ema", "aa"}) {
    train::EvaluationSummary summary = testing::summary_of({"cat", "dog"});
    summary.name = name;
    spill(path + "/evals/" + name + ".last.json", train::to_json(summary));
  }
  const SavedRun run = read_runs({path})[0];
  EXPECT_THAT(evaluator_names(run), ElementsAre("val", "val_ema", "again", "aa"));
  std::vector<std::string> shown;
  for (const train::EvaluationSummary& evaluation : run.evaluations) shown.push_back(evaluation.name);
  EXPECT_THAT(shown, ElementsAre("val", "val_ema", "again", "aa"));
}

TEST(BestScore, IsOfFiniteValuesAndTheFirstOfEqualOnes) {
  SavedRun run;
  const double nan = std::nan("");
  run.rows = {{10, {{"val/prec@1", nan}, {"val/count", 5}}},
              {20, {{"val/prec@1", 0.5}}},
              {30, {{"val/prec@1", 0.75}}},
              {40, {{"val/prec@1", 0.75}}},
              {50, {{"val/prec@1", 0.25}}}};
  const auto best = best_score(run, "val");
  ASSERT_TRUE(best);
  EXPECT_EQ(best->best, 0.75);
  EXPECT_EQ(best->best_step, 30);
  EXPECT_EQ(best->last, 0.25);
  EXPECT_EQ(best->evaluations, 4);
  EXPECT_EQ(best->score.text(best->best), "75.00 %");
  // Of a score that is a mean the least, as the summary says.
  run.evaluations = {{"val", "val", 50, {{"perplexity", false, 3}}}};
  run.rows = {{10, {{"val/perplexity", 4}, {"val/count", 5}}}, {20, {{"val/perplexity", 3}}}, {30, {{"val/perplexity", 3.5}}}};
  EXPECT_EQ(best_score(run, "val")->best, 3);
  EXPECT_FALSE(best_score(run, "other"));
}

TEST(TimeShares, AddUpToTheTimeOfTheRun) {
  SavedRun run;
  // 100 images at 10 a second, a tenth of the time waiting, after 5 seconds of compiling; an evaluation of 3 seconds; 40 images at 5.
  run.rows = {
      {0, {{"uptime", 1}, {"val/count", 5}, {"examples_seen", 0}}},
      {10,
       {{"uptime", 15},
        {"examples_seen", 100},
        {"img/sec", 10},
        {"input_wait", 0.1},
        {"input/decode", 0.5},
        {"input/read", 0.5}}},
      {14,
       {{"uptime", 26}, {"examples_seen", 140}, {"img/sec", 5}, {"input_wait", 0}, {"input/decode", 1}, {"input/read", 0}}}};
  const TimeShares time = time_shares(run);
  EXPECT_DOUBLE_EQ(time.total, 26);
  EXPECT_DOUBLE_EQ(time.waiting, 1);
  EXPECT_DOUBLE_EQ(time.training, 17);
  EXPECT_DOUBLE_EQ(time.starting, 5);
  EXPECT_DOUBLE_EQ(time.other, 3);
  EXPECT_DOUBLE_EQ(time.images_per_second, 140.0 / 18);
  EXPECT_THAT(time.stages, ElementsAre(Pair("decode", 13.0 / 18), Pair("read", 5.0 / 18)));
  EXPECT_EQ(time_shares(SavedRun{}).total, 0);
  // The save with which the run stopped.
  run.facts =
      train::parse_run_facts(train::to_json({.state = "stopped", .last_save = train::LastSave{15, 2.5, 26}}), "run.json");
  EXPECT_DOUBLE_EQ(time_shares(run).total, 28.5);
  EXPECT_DOUBLE_EQ(time_shares(run).other, 5.5);
  run.facts->last_save->uptime = 24;
  EXPECT_DOUBLE_EQ(time_shares(run).total, 26) << "the last line tells of it";
  run.facts->state = "running";
  EXPECT_DOUBLE_EQ(time_shares(run).total, 26) << "a line tells of it, or will";
  EXPECT_THROW(train::parse_run_facts(train::to_json({.last_save = train::LastSave{15, -1, 26}}), "run.json"), Error);
}

}  // namespace
}  // namespace tessera::report
