#ifdef TESSERA_HAS_BUCKETS

#include "checkpoint/remote/run_copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/manager.h"
#include "checkpoint/remote/run_objects.h"
#include "checkpoint/snapshots.h"
#include "store/file.h"
#include "store/local/cache_directory.h"
#include "store/servers/buckets.h"
#include "store/temp_dir.h"
#include "support/bucket_servers.h"

namespace tessera::remote {
namespace {

using std::chrono::milliseconds;

class RunCopyTest : public ::testing::Test {
 protected:
  RunCopyTest() {
    std::filesystem::create_directories(directory_ / "bucket");
    servers_.emplace(directory_ / "bucket");
    store::set_cache_directory(directory_ / "cache");
  }
  ~RunCopyTest() override { store::set_cache_directory(before_); }

  void write(const RunCopy& copy, const std::string& name, std::string_view text) {
    files_.make_directories(copy.local());
    store::write_atomic(files_, store::join_path(copy.local(), name), text);
  }
  std::optional<std::string> copied(const std::string& name) { return store::read_object(store::join_path(url_, name)); }

  const testing::TempDir directory_;
  std::optional<testing::BucketServers> servers_;
  const std::string before_ = store::cache_directory(), url_ = "s3://data/run";
  store::FileSystem& files_ = store::local_files();
  const KeptOf kept_ = [](const auto&, const auto&) { return KeptCheckpoints{}; };
};

// One that is saved while the files before it are being copied waits until its own metrics are there.
TEST_F(RunCopyTest, ACheckpointNeverComesBeforeItsMetrics) {
  RunCopy copy(url_, kept_, {milliseconds(100), milliseconds(1500), milliseconds(300), "host"});
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  const std::string checkpoints = store::join_path(copy.local(), "checkpoints");
  files_.make_directories(checkpoints);
  for (int i = 0; i < 12; ++i) write(copy, fmt::format("{}.txt", i), "text");
  write(copy, "metrics.jsonl", "1\n");
  servers_->fail({"late"});  // copying takes a while
  checkpoint::write_checkpoint(files_, checkpoints, testing::make_snapshot(1));
  while (!copied("metrics.jsonl")) ::usleep(10'000);
  write(copy, "metrics.jsonl", "1\n2\n");
  checkpoint::write_checkpoint(files_, checkpoints, testing::make_snapshot(2));
  while (!copied("checkpoints/step_000000002/COMMIT")) ::usleep(10'000);
  EXPECT_EQ(copied("metrics.jsonl"), "1\n2\n");
  servers_->fail({});
}

// Without it another machine would refuse what else is there as no run.
TEST_F(RunCopyTest, TheRecipeComesFirst) {
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  write(copy, "recipe.toml", "recipe");
  for (int i = 0; i < 30; ++i) write(copy, fmt::format("{}.txt", i), "text");
  servers_->fail({"denied"}, 4, /*writes=*/true);
  EXPECT_FALSE(copy.finish());
  EXPECT_GT(servers_->fail({}), 0);
  int others = 0;
  for (int i = 0; i < 30; ++i) others += copied(fmt::format("{}.txt", i)).has_value();
  EXPECT_LT(others, 5);
  EXPECT_EQ(copied("recipe.toml"), "recipe");
}

// As one that owed its evaluations, where it is the only one: it is whole there whatever fails.
TEST_F(RunCopyTest, AStepThatIsSavedAgainIsThereAtEveryMoment) {
  const auto all = [](const std::string&, const auto&) { return true; };
  const ClaimOptions claim{milliseconds(100), milliseconds(1500), milliseconds(300), "host"};
  std::optional<checkpoint::Snapshot> before;
  for (int every = 6; every >= 1; --every) {
    RunCopy copy(url_, kept_, claim);
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    const std::string checkpoints = store::join_path(copy.local(), "checkpoints");
    files_.make_directories(checkpoints);
    write(copy, "recipe.toml", "recipe");
    if (before) servers_->fail({"denied"}, every, /*writes=*/true);
    checkpoint::Snapshot snapshot = testing::make_snapshot(every);
    snapshot.step = 9;
    checkpoint::write_checkpoint(files_, checkpoints, snapshot);
    const bool copied = copy.finish();
    servers_->fail({});
    const checkpoint::LoadedCheckpoint there = load_checkpoint(url_, 9, all);
    const bool is_new = there.state_json == snapshot.state_json;
    EXPECT_TRUE(is_new || !copied);
    ASSERT_TRUE(is_new || before);
    if (is_new) before = snapshot;
    testing::expect_snapshot(there, *before);
  }
  RunCopy copy(url_, kept_, claim);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  EXPECT_TRUE(copy.finish());
  checkpoint::Snapshot last = testing::make_snapshot(1);
  last.step = 9;
  testing::expect_snapshot(load_checkpoint(url_, 9, all), last);
  EXPECT_EQ(list_run(url_).checkpoints.at(9).size(), 3U) << "what earlier copies left is removed";
}

// Of a run whose processes write its checkpoints, each of them fetches what it needs.
TEST_F(RunCopyTest, BringsWhatIsNeededWhenItIsAskedTo) {
  const KeptOf kept = [](const auto&, const auto&) { return KeptCheckpoints{{1}, false}; };
  {
    RunCopy copy(url_, kept);
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    const std::string checkpoints = store::join_path(copy.local(), "checkpoints");
    files_.make_directories(checkpoints);
    write(copy, "recipe.toml", "recipe");
    for (const int64_t step : {1, 2}) checkpoint::write_checkpoint(files_, checkpoints, testing::make_snapshot(step));
    EXPECT_TRUE(copy.finish());
  }
  for (const bool leaves_checkpoints : {true, false}) {
    store::set_cache_directory(directory_ / (leaves_checkpoints ? "second" : "third"));
    RunCopy copy(url_, kept);
    const auto has = [&](const std::string& name) { return files_.info(store::join_path(copy.local(), name)).has_value(); };
    EXPECT_FALSE(has("recipe.toml")) << "others may be waiting for this process";
    copy.bring_up_to_date(leaves_checkpoints);
    EXPECT_TRUE(has("recipe.toml"));
    for (const int64_t step : {1, 2})
      EXPECT_EQ(has(fmt::format("checkpoints/step_{:09}/COMMIT", step)), !leaves_checkpoints) << step;
  }
}

// The processes of the run write them into the bucket: what is here goes there, and what is there stays.
TEST_F(RunCopyTest, CheckpointsMayBeLeftToOthers) {
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  const std::string checkpoints = store::join_path(copy.local(), "checkpoints");
  files_.make_directories(checkpoints);
  write(copy, "recipe.toml", "recipe");
  checkpoint::write_checkpoint(files_, checkpoints, testing::make_snapshot(1));
  copy.leave_checkpoints();
  EXPECT_TRUE(copied("checkpoints/step_000000001/COMMIT"));
  EXPECT_FALSE(files_.info(store::join_path(checkpoints, "step_000000001")));
  const auto all = [](const std::string&, const auto&) { return true; };
  testing::expect_snapshot(load_checkpoint(url_, 1, all), testing::make_snapshot(1));
  EXPECT_TRUE(files_.list(store::join_path(directory_ / "cache", "spool")).empty()) << "what is mapped has no name";

  write(copy, "metrics.jsonl", "1\n");
  copy.copy_before_commit();
  EXPECT_EQ(copied("metrics.jsonl"), "1\n");
  EXPECT_TRUE(copy.finish());
  EXPECT_TRUE(copied("checkpoints/step_000000001/COMMIT"));

  remove_checkpoint_objects(url_, 1);
  EXPECT_TRUE(list_run(url_).checkpoints.empty());
}

}  // namespace
}  // namespace tessera::remote

#endif
