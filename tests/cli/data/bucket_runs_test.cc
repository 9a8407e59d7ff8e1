// Runs whose workdir is in a bucket, on real servers of S3 and Google Cloud Storage (docs/buckets.md).

#ifdef TESSERA_HAS_BUCKETS

#include <gmock/gmock.h>

#include "cli/finished_run.h"
#include "cli/metrics_lines.h"
#include "store/servers/buckets.h"
#include "support/bucket_servers.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// run/ is the same run in a local directory, with checkpoints of steps 3 and 6.
class BucketRuns : public FinishedRun<BucketRuns> {
 protected:
  static void SetUpTestSuite() {
    write_file(testing::cache_path() + "/begin", "");
    begin_ = fs::last_write_time(testing::cache_path() + "/begin");
    FinishedRun::SetUpTestSuite();
    write_file(*folder_ / "bucket/notes.txt", "of another project\n");
    servers_ = new testing::BucketServers(*folder_ / "bucket");
  }
  static void TearDownTestSuite() {
    delete servers_;
    FinishedRun::TearDownTestSuite();
  }
  // What the run in run/ used, so that each machine need not compile it again.
  static void copy_programs(const fs::path& cache) {
    fs::create_directories(cache);
    fs::permissions(cache, fs::perms::owner_all);
    for (const auto& entry : fs::directory_iterator(testing::cache_path())) {
      if (entry.path().extension() == ".exe" && entry.last_write_time() >= begin_) fs::copy(entry.path(), cache);
    }
  }
  // On a machine of the name `machine`, which keeps what it copied.
  static Outcome on(const std::string& machine, std::vector<std::string> args) {
    const fs::path cache = *folder_ / machine;
    if (!fs::exists(cache)) copy_programs(cache);
    args.insert(args.end(), {"--cache-dir", cache.string()});
    return run_program(args, folder_->path(), servers_->environment());
  }
  static Outcome train(const std::string& machine, const std::string& url, std::vector<std::string> overrides = {}) {
    std::vector<std::string> args = {"train", "--workdir", url, "tiny.toml"};
    args.insert(args.end(), overrides.begin(), overrides.end());
    return on(machine, args);
  }
  static std::optional<std::string> object(const std::string& url) { return store::read_object(url); }
  static std::vector<std::string> objects(const std::string& url) {
    std::vector<std::string> names;
    store::list_objects(url, [&](const std::string& name, const store::ListedObject&) { names.push_back(name); });
    std::ranges::sort(names);
    return names;
  }
  static std::string local_state(int64_t step) {
    return read_file(*folder_ / fmt::format("run/checkpoints/step_{:09}/state.safetensors", step));
  }
  // Compares without showing bytes.
  static void expect_state(const std::string& url, int64_t step, const std::string& file = "state.safetensors") {
    EXPECT_TRUE(object(fmt::format("{}/checkpoints/step_{:09}/{}", url, step, file)) == local_state(step)) << url << step;
  }

  static inline testing::BucketServers* servers_ = nullptr;
  static inline fs::file_time_type begin_;
};

TEST_F(BucketRuns, HoldWhatALocalOneHolds) {
  for (const std::string url : {"s3://data/runs/whole", "gs://data/runs/whole"}) {
    const Outcome run = train("machine", url);
    ASSERT_EQ(run.exit, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("workdir  " + url));
    EXPECT_THAT(run.out, AllOf(HasSubstr("checkpoint  " + url + "/checkpoints/step_000000006"),
                               HasSubstr("tessera predict --from " + url), Not(HasSubstr(folder_->path().string()))));
    for (const int64_t step : {3, 6}) expect_state(url, step);
    std::vector<std::string> local;
    for (const auto& entry : fs::recursive_directory_iterator(*folder_ / "run")) {
      const std::string name = entry.path().lexically_relative(*folder_ / "run").string();
      if (entry.is_regular_file() && name != ".lock") local.push_back(name);
    }
    std::ranges::sort(local);
    EXPECT_EQ(objects(url), local);
    const Outcome again = train("machine", url);
    EXPECT_EQ(again.exit, 0);
    EXPECT_THAT(again.err, HasSubstr("the run is finished"));

    // And its weights are used anywhere.
    const Outcome scores = on("elsewhere", {"eval", "tiny.toml", "--from", url + "@3", "--json"});
    EXPECT_EQ(scores.exit, 0) << scores.err;
    const Outcome local_scores = tessera({"eval", "tiny.toml", "--from", "run@3", "--json"});
    EXPECT_EQ(scores.json().at(0).at("val/loss"), local_scores.json().at(0).at("val/loss"));
    EXPECT_THAT(on("elsewhere", {"eval", "tiny.toml", "--from", url + "@4"}).err,
                AllOf(HasSubstr("no checkpoint of step 4"), HasSubstr("it has those of steps 3, 6")));
    const Outcome other = tessera({"train", "tiny.toml", "--workdir", "from", "model_init=run"});
    const Outcome from = on("elsewhere", {"train", "tiny.toml", "--workdir", "from_bucket", "model_init=" + url});
    EXPECT_EQ(from.exit, 0) << from.err;
    EXPECT_EQ(curves_of(*folder_ / "from_bucket").at("training_loss"), curves_of(*folder_ / "from").at("training_loss"));
    fs::remove_all(*folder_ / "from");
    fs::remove_all(*folder_ / "from_bucket");
  }
}

// A machine is taken away after step 3, and another one goes on: the bytes of a run that was never stopped.
TEST_F(BucketRuns, AreGoneOnWithOnAnotherMachine) {
  for (const std::string url : {"s3://data/runs/moved", "gs://data/runs/moved"}) {
    RunningProgram first(
        {"train", "--workdir", url, "tiny.toml", "total=6 steps", "--cache-dir", (*folder_ / "first").string()},
        folder_->path(), servers_->environment());
    while (first.running() && !object(url + "/checkpoints/step_000000003/COMMIT")) ::usleep(10'000);
    first.send(SIGKILL);
    first.wait();
    const Outcome second = train("second", url);
    ASSERT_EQ(second.exit, 0) << second.err;
    EXPECT_THAT(second.err, AnyOf(HasSubstr("from step 3 of 6"), HasSubstr("the run is finished")));
    expect_state(url, 6);
    fs::remove_all(*folder_ / "first");
    fs::remove_all(*folder_ / "second");
  }
}

// A large one takes longer than others wait for a process that does not come.
TEST_F(BucketRuns, AreFetchedOnceTheProcessesHaveMet) {
  const std::string url = "gs://data/runs/met";
  ASSERT_EQ(train("machine", url).exit, 0);
  const Outcome alone = train("waits", url,
                              {"--num-processes", "2", "--process-id", "0", "--coordinator-address", "127.0.0.1:1", "--run-id",
                               "met", "--meet-timeout", "1"});
  EXPECT_EQ(alone.exit, 75) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("workdir  " + url));
  for (const auto& entry : fs::recursive_directory_iterator(*folder_ / "waits")) EXPECT_NE(entry.path().filename(), "COMMIT");
  fs::remove_all(*folder_ / "waits");
}

TEST_F(BucketRuns, PassOverACheckpointThatIsDamagedThere) {
  const std::string url = "s3://data/runs/damaged";
  ASSERT_EQ(train("first", url).exit, 0);
  const std::string state = url + "/checkpoints/step_000000006/state.safetensors";
  std::string bytes = *object(state);
  bytes[bytes.size() / 2] ^= 1;
  store::write_object(state, bytes);
  const Outcome second = train("second", url);
  EXPECT_EQ(second.exit, 0) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr("step 6 in the bucket is passed over"), HasSubstr("from step 3 of 6")));
  expect_state(url, 6, "r2-state.safetensors");
  EXPECT_FALSE(object(state)) << "what was written beside is all that counts";
  EXPECT_THAT(train("third", url).err, AllOf(HasSubstr("the run is finished"), Not(HasSubstr("passed over"))));
}

TEST_F(BucketRuns, KeepTheCheckpointsThatTheRecipeKeeps) {
  const std::string url = "s3://data/runs/kept";
  const std::vector<std::string> many = {"checkpoint.every=1 steps", "checkpoint.keep=1", "checkpoint.best=none"};
  ASSERT_EQ(train("first", url, many).exit, 0);
  std::vector<std::string> longer = many;
  longer.push_back("total=8 steps");
  ASSERT_EQ(train("second", url, longer).exit, 0);
  std::set<std::string> steps;
  for (const std::string& name : objects(url + "/checkpoints")) steps.insert(name.substr(0, name.find('/')));
  EXPECT_EQ(steps.count("step_000000008"), 1u);
  EXPECT_LE(steps.size(), 2u);
}

TEST_F(BucketRuns, StartAfreshWhereTheBucketIsEmptied) {
  const std::string url = "gs://data/runs/emptied";
  ASSERT_EQ(train("machine", url).exit, 0);
  for (const std::string& name : objects(url)) store::remove_object(store::join_path(url, name));
  const Outcome again = train("machine", url);
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("is empty: the run starts afresh"));
  expect_state(url, 6);
}

TEST_F(BucketRuns, AreRefusedToAnotherRecipeAndWhereTheyCannotBe) {
  const std::string url = "s3://data/runs/other";
  ASSERT_EQ(train("first", url).exit, 0);
  const Outcome other = train("second", url, {"model.width=32"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("model.width"));
  const Outcome none = train("first", "s3://nobody/run");
  EXPECT_EQ(none.exit, 3);
  EXPECT_THAT(none.err, HasSubstr("there is no such bucket"));
  EXPECT_EQ(train("first", "hf://user/run").exit, 2);
  const Outcome uncached =
      run_program({"train", "--workdir", url, "tiny.toml", "--cache-dir", ""}, folder_->path(), servers_->environment());
  EXPECT_EQ(uncached.exit, 2);
  EXPECT_THAT(uncached.err, HasSubstr("--cache-dir"));
}

// No permission, a key that has expired, another region, no room: said before a step, with what to do.
TEST_F(BucketRuns, ThatCannotBeWrittenAreRefusedAtTheStart) {
  const std::pair<const char*, const char*> kRefusals[] = {{"denied", "these credentials may not do that"},
                                                           {"expired", "the credentials expired"},
                                                           {"elsewhere", "another region"},
                                                           {"full", "quota"}};
  for (const auto& [fault, help] : kRefusals) {
    servers_->fail({fault}, 1, /*writes=*/true);
    const Outcome outcome = train("refused", "s3://data/runs/refused");
    servers_->fail({});
    EXPECT_EQ(outcome.exit, 3) << fault << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("s3://data/runs/refused/CLAIM"), HasSubstr(help))) << fault;
    EXPECT_TRUE(fs::is_empty(*folder_ / "refused/runs")) << fault;
  }
}

// What passes is tried again; what was written otherwise than meant is written once more.
TEST_F(BucketRuns, AreWholeWhateverTheServersDo) {
  servers_->fail({"internal error", "slow down", "reset", "reset after", "corrupt", "service unavailable", "close",
                  "bad gateway", "truncated", "too many requests", "gateway timeout", "garbage"},
                 3, /*writes=*/true);
  const Outcome run = train("faults", "s3://data/runs/faults");
  EXPECT_GE(servers_->fail({}), 8);
  EXPECT_EQ(run.exit, 0) << run.err;
  for (const int64_t step : {3, 6}) expect_state("s3://data/runs/faults", step);
  EXPECT_EQ(train("other", "s3://data/runs/faults").exit, 0);
}

// Nothing is lost where the server refuses all along: the next start copies it.
TEST_F(BucketRuns, CopyLaterWhatCouldNotBeCopied) {
  const std::string url = "s3://data/runs/later";
  RunningProgram run({"train", "--workdir", url, "tiny.toml", "--cache-dir", (*folder_ / "later").string()}, folder_->path(),
                     servers_->environment());
  while (run.running() && run.err().find("workdir  ") == std::string::npos) ::usleep(10'000);
  servers_->fail({"denied"}, 1, /*writes=*/true);
  const Outcome outcome = run.wait();
  servers_->fail({});
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the end of the run is not in `s3://data/runs/later`"), HasSubstr("may not")));
  EXPECT_EQ(train("later", url).exit, 0);
  expect_state(url, 6);
}

// What is here alone is not saved: another machine would go on from the bucket.
TEST_F(BucketRuns, MayLoseStepsUntilTheyAreCopied) {
  const std::string url = "s3://data/runs/hangs";
  auto environment = servers_->environment();
  environment["LD_PRELOAD"] = testing::odd_files_path();
  environment["ODD_FILES_STUCK"] = (*folder_ / "waits").string();
  environment["ODD_FILES_SYNC"] = "/plot.svg";
  RunningProgram run(
      {"train", "--workdir", url, "tiny.toml", "--stop-patience", "1", "--cache-dir", (*folder_ / "hangs").string()},
      folder_->path(), environment);
  while (run.running() && !fs::exists(*folder_ / "waits")) ::usleep(10'000);
  run.send(SIGTERM);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.exit, 3) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("it ends without that file"), Not(HasSubstr("no step is lost"))));
  EXPECT_EQ(train("hangs", url).exit, 0);
  expect_state(url, 6);
}

}  // namespace
}  // namespace tessera::cli

#endif
