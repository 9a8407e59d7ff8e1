#include "pages/board/runs/watched_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "pages/board/runs/runs.h"
#include "pages/report/made_run.h"
#include "store/faulty_files.h"

namespace tessera::board {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::spill;
using testing::TempDir;

// A run whose trainer this test is.
struct Watched {
  TempDir dir;
  std::string path = dir / "run";
  bool training = true;
  WatchedRun run{"run", path, [this](const std::string&) { return training; }};

  void write(int64_t step, double loss) const {
    std::filesystem::create_directories(path);
    monitor::MetricWriter(path).write(
        step,
        {{"training_loss", loss}, {"progress", static_cast<double>(step) / 100}, {"uptime", 2 * static_cast<double>(step)}});
  }
};

TEST(WatchedRun, IsFollowedFromBeforeItBegins) {
  Watched it;
  EXPECT_FALSE(it.run.refresh().metrics);
  EXPECT_EQ(it.run.summary()["state"], "starting");
  it.write(10, 2);
  it.write(20, 1);
  spill(it.path + "/recipe.toml", testing::recipe_text(it.dir.path()));
  spill(it.path + "/run.json", train::to_json(testing::facts_of("running")));
  const WatchedRun::Change change = it.run.refresh();
  EXPECT_TRUE(change.metrics && change.state);
  const Json summary = it.run.summary();
  EXPECT_EQ(summary["state"], "running");
  EXPECT_EQ(summary["step"], 20);
  EXPECT_EQ(summary["total"], 100);
  EXPECT_EQ(summary["seconds_left"], 160) << "2 seconds a step";
  EXPECT_EQ(summary["newest"]["training_loss"], 1);
  const Json all = it.run.metrics({"training_loss", "none"}, -1, 100)["metrics"];
  EXPECT_EQ(all.dump(), R"({"training_loss":{"step":[10,20],"value":[2.0,1.0]}})");
  EXPECT_EQ(it.run.metrics({"training_loss"}, 10, 100)["metrics"]["training_loss"]["step"].dump(), "[20]");
  EXPECT_FALSE(it.run.refresh().metrics) << "nothing new";
}

TEST(WatchedRun, ListsWhatWasCompiled) {
  Watched it;
  it.write(10, 2);
  spill(it.path + "/log.txt",
        "2026-11-23T06:42:00.123Z start    tessera 0.2.0: tessera train x.toml\n"
        "2026-11-23T06:42:00.871Z compile  train_step 0.08 s (cached)\n"
        "2026-11-23T06:42:01.000Z step [1/100]  loss 2  compile  soon\n");
  EXPECT_TRUE(it.run.refresh().state);
  const int64_t version = it.run.version();
  EXPECT_EQ(it.run.compilations().dump(),
            R"([{"at":"2026-11-23T06:42:00.871Z","program":"train_step","took":"0.08 s","cause":"cached"}])");
  std::ofstream(it.path + "/log.txt", std::ios::app)
      << "2026-11-23T06:43:13.000Z compile  evaluate val 1:13 (not in the cache)\n";
  it.run.refresh();
  EXPECT_GT(it.run.version(), version) << "the page asks again";
  const Json all = it.run.compilations();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["program"], "evaluate val");
  EXPECT_EQ(all[1]["took"], "1:13");
  EXPECT_EQ(all[1]["cause"], "not in the cache");
  EXPECT_FALSE(it.run.refresh().state) << "nothing new";
}

// The verdict tells of it, and is read when there is news: between evaluations there is no other.
TEST(WatchedRun, AnAlertIsNews) {
  Watched it;
  std::filesystem::create_directories(it.path);
  const std::vector<monitor::MetricRow> rows = testing::alarming_rows("throughput");
  const auto version_at = [&](size_t first, size_t last) {
    monitor::MetricWriter writer(it.path);
    for (size_t i = first; i < last; ++i) {
      std::vector<monitor::Metric> metrics;
      for (const auto& [name, value] : rows[i].values) metrics.push_back({name, value});
      writer.write(rows[i].step, metrics);
    }
    writer.flush();
    EXPECT_TRUE(it.run.refresh().metrics);
    return it.run.version();
  };
  const int64_t version = version_at(0, 200);
  EXPECT_EQ(version_at(200, 203), version) << "three slow lines";
  EXPECT_EQ(version_at(203, 210), version + 1) << "once";
}

TEST(WatchedRun, ASkippedUpdateIsNews) {
  Watched it;
  std::filesystem::create_directories(it.path);
  const auto version_at = [&](int64_t step, double skips) {
    monitor::MetricWriter(it.path).write(step, {{"training_loss", 1}, {"skips", skips}});
    EXPECT_TRUE(it.run.refresh().metrics);
    return it.run.version();
  };
  const int64_t version = version_at(10, 0);
  EXPECT_EQ(version_at(17, 1), version + 1);
  EXPECT_EQ(version_at(20, 1), version + 1) << "the same one";
  EXPECT_EQ(version_at(23, 2), version + 2);
}

TEST(WatchedRun, SaysHowItEnded) {
  Watched it;
  it.write(10, 2);
  spill(it.path + "/run.json", train::to_json(testing::facts_of("running")));
  it.training = false;
  it.run.refresh();
  EXPECT_EQ(it.run.state(), "killed");
  for (const char* state : {"done", "stopped", "diverged", "failed"}) {
    store::write_atomic(store::local_files(), it.path + "/run.json", train::to_json(testing::facts_of(state, "why")));
    EXPECT_TRUE(it.run.refresh().state);
    EXPECT_EQ(it.run.summary()["state"], state);
    EXPECT_EQ(it.run.summary()["message"], "why");
  }
}

// As a resumed run cuts its files.
TEST(WatchedRun, GoesBackWithTheRun) {
  Watched it;
  for (int64_t step = 10; step <= 50; step += 10) it.write(step, static_cast<double>(step));
  it.run.refresh();
  const Json before = it.run.summary()["generation"];
  monitor::MetricWriter(it.path).truncate_after(20);
  it.write(30, 31);
  it.write(40, 41);
  it.write(50, 51);
  EXPECT_TRUE(it.run.refresh().metrics);
  EXPECT_NE(it.run.summary()["generation"], before);
  EXPECT_EQ(it.run.metrics({"training_loss"}, -1, 100)["metrics"]["training_loss"]["value"].dump(),
            "[10.0,20.0,31.0,41.0,51.0]");
}

TEST(WatchedRun, BadFilesAreProblems) {
  Watched it;
  it.write(10, 2);
  spill(it.path + "/run.json", "{");
  it.run.refresh();
  EXPECT_THAT(it.run.summary()["problems"].dump(), HasSubstr("run.json"));
  EXPECT_EQ(it.run.summary()["step"], 10);
  spill(it.path + "/recipe.toml", "= x");
  spill(it.path + "/metrics.jsonl", testing::slurp(it.path + "/metrics.jsonl") + "no metrics\n{\n{\"step\":");
  it.run.refresh();
  const std::string problems = it.run.summary()["problems"].dump();
  EXPECT_THAT(problems, AllOf(HasSubstr("recipe.toml"), HasSubstr("metrics.jsonl`: 2 lines can't be read")));
}

TEST(WatchedRun, ScoresKnowTheirBest) {
  TempDir dir;
  const std::string path = testing::make_run(dir.path(), "run", {"cat", "dog"});
  WatchedRun run("run", path, [](const std::string&) { return false; });
  run.refresh();
  const Json scores = run.summary()["scores"];
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_EQ(scores[0]["evaluator"], "val");
  EXPECT_EQ(scores[0]["best_text"], "75.00 %");
  EXPECT_EQ(scores[0]["best_step"], 80);
  EXPECT_EQ(scores[0]["text"], "74.00 %");
}

TEST(Runs, AreFoundAndCalledApart) {
  TempDir dir;
  testing::make_run(dir / "a", "one", {"cat", "dog"});
  testing::make_run(dir / "b/deeper", "one", {"cat", "dog"});
  testing::make_run(dir / "b", "two", {"cat", "dog"});
  Runs runs({dir.path(), dir / "b/two", dir / "none"}, false);
  EXPECT_TRUE(runs.scan());
  EXPECT_FALSE(runs.scan());
  std::vector<std::string> names;
  for (const auto& run : runs.all()) names.push_back(run->name());
  EXPECT_THAT(names, ElementsAre("a/one", "b/deeper/one", "b/two"));
  EXPECT_EQ(runs.find("b/two")->path(), dir / "b/two");
  EXPECT_EQ(runs.find("two"), nullptr);
  EXPECT_EQ(runs.find("")->name(), "a/one") << "none trains";
  testing::make_run(dir / "b", "three", {"cat", "dog"});
  EXPECT_TRUE(runs.scan());
  EXPECT_EQ(runs.all().size(), 4u);
}

std::vector<std::string> names_of(const Runs& runs) {
  std::vector<std::string> names;
  for (const auto& run : runs.all()) names.push_back(run->name());
  return names;
}

// Curves of Prometheus and what a page shows go on under the name that they began with.
TEST(Runs, KeepTheirNamesWhenOthersCome) {
  TempDir dir;
  testing::make_run(dir / "a/deep", "one", {"cat", "dog"});
  testing::make_run(dir / "c", "one", {"cat", "dog"});
  Runs runs({dir / "a", dir / "b", dir / "c/one"}, false);
  EXPECT_TRUE(runs.scan());
  EXPECT_THAT(names_of(runs), ElementsAre("deep/one", "one"));
  const auto first = runs.find("deep/one"), itself = runs.find("one");
  EXPECT_EQ(itself->path(), dir / "c/one");
  testing::make_run(dir / "a", "one", {"cat", "dog"});
  testing::make_run(dir / "b/deep", "one", {"cat", "dog"});
  testing::make_run(dir / "b", "two", {"cat", "dog"});
  EXPECT_TRUE(runs.scan());
  EXPECT_THAT(names_of(runs), ElementsAre("a/one", "b/deep/one", "deep/one", "one", "two"));
  EXPECT_EQ(runs.find("deep/one"), first) << "not read anew";
  EXPECT_EQ(runs.find("one"), itself);
  EXPECT_EQ(runs.find("a/one")->path(), dir / "a/one");
  EXPECT_EQ(runs.find("b/deep/one")->path(), dir / "b/deep/one");
}

// Of one directory, the order in which runs came decides nothing, nor does a page that is started anew.
TEST(Runs, OfOneDirectoryHaveNamesOfTheirPathsAlone) {
  TempDir dir;
  testing::make_run(dir / "sweep", "one", {"cat", "dog"});
  Runs runs({dir.path()}, false);
  runs.scan();
  testing::make_run(dir.path(), "one", {"cat", "dog"});
  runs.scan();
  Runs anew({dir.path()}, false);
  anew.scan();
  EXPECT_THAT(names_of(runs), ElementsAre("one", "sweep/one"));
  EXPECT_EQ(names_of(anew), names_of(runs));
  EXPECT_EQ(runs.find("one")->path(), dir / "one");
}

// Both read caf\xe9 in one line.
TEST(Runs, OfPathsThatReadTheSameHaveNumbers) {
  TempDir dir;
  for (const char* name : {"caf\xe9", R"(caf\xe9)"}) testing::make_run(dir.path(), name, {"cat", "dog"});
  Runs runs({dir.path()}, false);
  runs.scan();
  EXPECT_THAT(names_of(runs), ElementsAre(R"(caf\xe9)", R"(caf\xe9 (2))"));
}

// A page asks for a run by the name that it was told in JSON.
TEST(Runs, HaveNamesOfOneLineInUtf8) {
  TempDir dir;
  for (const char* name : {"caf\xe9", "two\nlines"}) testing::make_run(dir.path(), name, {"cat", "dog"});
  Runs runs({dir.path()}, false);
  runs.scan();
  std::vector<std::string> names;
  for (const auto& run : runs.all()) names.push_back(run->name());
  EXPECT_THAT(names, ElementsAre(R"(caf\xe9)", R"(two\nlines)"));
  EXPECT_EQ(runs.find(R"(caf\xe9)")->path(), dir / "caf\xe9");
}

// Files that refuse to be looked at, as those of another user do.
class Closed final : public testing::FaultyFiles {
 public:
  Closed() : FaultyFiles(store::local_files()) {}
  std::string closed;
  std::optional<store::FileInfo> info(const std::string& path) override {
    if (!closed.empty() && path.starts_with(closed + "/")) throw store::IoError(EACCES, "read", path);
    return FaultyFiles::info(path);
  }
};

TEST(Runs, DirectoriesThatCannotBeReadAreSaid) {
  TempDir dir;
  testing::make_run(dir.path(), "one", {"cat", "dog"});
  testing::make_run(dir.path(), "two", {"cat", "dog"});
  Closed files;
  files.closed = dir / "two";
  Runs runs({dir.path()}, false, files);
  EXPECT_TRUE(runs.scan());
  EXPECT_EQ(runs.all().size(), 1u);
  ASSERT_EQ(runs.problems().size(), 1u);
  EXPECT_THAT(runs.problems()[0], AllOf(HasSubstr("two"), HasSubstr("Permission denied")));
  EXPECT_FALSE(runs.scan()) << "no news";
  files.closed.clear();
  EXPECT_TRUE(runs.scan());
  EXPECT_EQ(runs.all().size(), 2u);
  EXPECT_TRUE(runs.problems().empty());
}

TEST(Runs, StandInTheOrderInWhichPeopleCount) {
  TempDir dir;
  const std::vector<std::string> names = {"digits-1", "digits-02",     "digits-2",       "digits-10", "lr=0.0003",
                                          "lr=0.001", "lr=0.1_seed=2", "lr=0.1_seed=10", "run",       "run-3"};
  for (const std::string& name : names) {
    std::filesystem::create_directory(dir / name);
    spill(dir / (name + "/recipe.toml"), "seed = 0\n");
  }
  Runs runs({dir.path()}, false);
  runs.scan();
  std::vector<std::string> found;
  for (const auto& run : runs.all()) found.push_back(run->name());
  EXPECT_EQ(found, names);
}

TEST(Runs, ThatThereAreTooManyIsSaid) {
  TempDir dir;
  const auto make = [&](int number) {
    const std::string run = dir / fmt::format("run_{:04}", number);
    std::filesystem::create_directory(run);
    testing::spill(run + "/recipe.toml", "seed = 0\n");
  };
  for (int i = 0; i < 1000; ++i) make(i);
  Runs runs({dir.path()}, false);
  EXPECT_TRUE(runs.scan());
  EXPECT_EQ(runs.all().size(), 1000u);
  EXPECT_TRUE(runs.problems().empty());
  make(1000);
  EXPECT_TRUE(runs.scan());
  EXPECT_EQ(runs.all().size(), 1000u);
  ASSERT_EQ(runs.problems().size(), 1u);
  EXPECT_THAT(runs.problems()[0], HasSubstr("more than 1,000 runs"));
}

TEST(Runs, OneThatWillBeginIsThere) {
  TempDir dir;
  Runs runs({dir / "later"}, true);
  EXPECT_TRUE(runs.scan());
  ASSERT_NE(runs.find(""), nullptr);
  EXPECT_EQ(runs.find("")->state(), "not started");
}

}  // namespace
}  // namespace tessera::board
