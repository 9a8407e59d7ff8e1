#ifdef TESSERA_HAS_BUCKETS

#include "checkpoint/remote/run_copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
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

// Each with a run of its own in one server's bucket.
class RunCopyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const testing::TempDir empty;
    servers_ = new testing::BucketServers(empty.path());
  }
  static void TearDownTestSuite() { delete servers_; }

  RunCopyTest() { store::set_cache_directory(directory_ / "cache"); }
  ~RunCopyTest() override {
    servers_->fail({});
    store::set_cache_directory(before_);
  }

  void write(const RunCopy& copy, const std::string& name, std::string_view text) {
    files_.make_directories(copy.local());
    store::write_atomic(files_, store::join_path(copy.local(), name), text);
  }
  std::optional<std::string> copied(const std::string& name) { return store::read_object(store::join_path(url_, name)); }
  // Whether the object is there, as a list tells it, which no fault of a read holds up.
  bool is_listed(const std::string& name) {
    bool found = false;
    store::list_objects(url_, [&](const std::string& one, const store::ListedObject&) { found = found || one == name; });
    return found;
  }
  // Saves that step in the local copy, with arrays and a state by `seed`.
  checkpoint::Snapshot save(const RunCopy& copy, int64_t step, int64_t seed) {
    checkpoint::Snapshot snapshot = testing::make_snapshot(seed);
    snapshot.step = step;
    const std::string checkpoints = store::join_path(copy.local(), "checkpoints");
    files_.make_directories(checkpoints);
    checkpoint::write_checkpoint(files_, checkpoints, snapshot);
    return snapshot;
  }
  // Writes that step there, with arrays and a state by `seed` and that prefix of its files. Gives its COMMIT.
  checkpoint::Commit upload(int64_t step, int64_t seed, std::string_view prefix) {
    checkpoint::Snapshot snapshot = testing::make_snapshot(seed);
    snapshot.step = step;
    const std::string local = directory_ / "written", to = store::join_path(url_, checkpoint_name(step));
    files_.make_directories(local);
    const std::string from = checkpoint::write_checkpoint(files_, local, snapshot);
    const checkpoint::Commit here = checkpoint::read_commit(files_, from);
    checkpoint::Commit there = checkpoint::with_prefix(here, prefix);
    for (size_t i = 0; i < here.files.size(); ++i)
      store::upload_file(store::join_path(from, here.files[i].name), store::join_path(to, there.files[i].name));
    store::write_object(store::join_path(to, checkpoint::kCommitFile), checkpoint::commit_text(there));
    return there;
  }
  // The step as another program fetches it from the bucket.
  checkpoint::LoadedCheckpoint fetched(int64_t step) {
    const std::string checkpoints = directory_ / "fetched";
    fetch_checkpoint(url_, step, checkpoints);
    return checkpoint::load(store::join_path(checkpoints, checkpoint::step_directory(step)));
  }

  const testing::TempDir directory_;
  static inline testing::BucketServers* servers_ = nullptr;
  const std::string before_ = store::cache_directory();
  const std::string url_ = fmt::format("s3://data/{}", ::testing::UnitTest::GetInstance()->current_test_info()->name());
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

// As at the end of a run that was ended in its last evaluation: the bucket has that step from the start.
TEST_F(RunCopyTest, AStepThatIsSavedAgainIsCopiedAgain) {
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  write(copy, "recipe.toml", "recipe");
  save(copy, 9, 1);
  while (!is_listed("checkpoints/step_000000009/COMMIT")) ::usleep(10'000);
  const checkpoint::Snapshot again = save(copy, 9, 2);
  EXPECT_TRUE(copy.finish());
  testing::expect_snapshot(fetched(9), again);
}

// Its files are then of two saves, and COMMIT of one.
TEST_F(RunCopyTest, AStepThatIsSavedAgainWhileItIsCopiedIsNotMixed) {
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  write(copy, "recipe.toml", "recipe");
  save(copy, 9, 1);
  while (!is_listed("checkpoints/step_000000009/COMMIT")) ::usleep(10'000);
  const auto commit = [&] { return copied("checkpoints/step_000000009/COMMIT"); };
  const auto first = commit();
  servers_->fail({"late"});  // each file is read back, which takes a while
  save(copy, 9, 2);
  while (!is_listed("checkpoints/step_000000009/r2-state.safetensors")) ::usleep(1'000);
  const checkpoint::Snapshot last = save(copy, 9, 3);
  while (commit() == first) ::usleep(1'000);
  servers_->fail({});
  EXPECT_NO_THROW(fetched(9));
  EXPECT_TRUE(copy.finish());
  testing::expect_snapshot(fetched(9), last);
}

// checkpoint.keep = 1, and the newer one is not copied yet.
TEST_F(RunCopyTest, AStepThatIsRemovedWhileItIsCopiedAgainStaysAsItWasThere) {
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  write(copy, "recipe.toml", "recipe");
  save(copy, 9, 1);
  while (!is_listed("checkpoints/step_000000009/COMMIT")) ::usleep(10'000);
  servers_->fail({"late"});
  save(copy, 9, 2);
  while (!is_listed("checkpoints/step_000000009/r2-state.safetensors")) ::usleep(1'000);
  checkpoint::remove_checkpoint(files_, store::join_path(copy.local(), "checkpoints"), "step_000000009");
  servers_->fail({});
  EXPECT_TRUE(copy.finish());
  EXPECT_NO_THROW(fetched(9)) << "it is all that is there";
}

// The files get other names each time.
TEST_F(RunCopyTest, AReaderGetsAStepThatIsSavedAgainMeanwhile) {
  checkpoint::Commit there = upload(9, 0, "r2-");
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    for (int64_t seed = 1; seed < 40; ++seed) {
      there = upload(9, seed, checkpoint::other_prefix(there));
      const std::string to = store::join_path(url_, checkpoint_name(9));
      checkpoint::remove_unlisted(store::files_at(to), to, there);
    }
    ends = true;
  });
  while (!ends) EXPECT_NO_THROW(fetched(9));
  writer.join();
}

TEST_F(RunCopyTest, AReaderGetsTheNewestOfARunThatGoesOn) {
  upload(1, 1, "r2-");
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    for (int64_t step = 2; step < 40; ++step) {
      upload(step, step, "r2-");
      remove_checkpoint_objects(url_, step - 1);
    }
    ends = true;
  });
  while (!ends) EXPECT_NO_THROW(fetch_run(url_));
  writer.join();
}

// Else a run would go back for a server that is away for a moment, or for an older version of the program.
TEST_F(RunCopyTest, OnlyWhatIsDamagedIsPassedOver) {
  {
    RunCopy copy(url_, kept_);
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    for (const int64_t step : {1, 2}) save(copy, step, step);
    EXPECT_TRUE(copy.finish());
  }
  store::set_cache_directory(directory_ / "second");
  RunCopy copy(url_, kept_);
  const std::string second = store::join_path(url_, checkpoint_name(2)), commit = store::join_path(second, "COMMIT");
  const std::string text = store::read_object(commit).value();
  checkpoint::Commit newer = checkpoint::parse_commit(text, commit);
  newer.version = 99;
  store::write_object(commit, checkpoint::commit_text(newer));
  try {
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("use the version of Tessera that wrote it"));
  }
  store::write_object(commit, text);
  store::remove_object(store::join_path(second, "state.json"));
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  const auto has = [&](int64_t step) { return files_.info(store::join_path(copy.local(), checkpoint_name(step))).has_value(); };
  EXPECT_TRUE(has(1));
  EXPECT_FALSE(has(2)) << "a file is missing";
}

// Those that another machine left go too, where only one is kept.
TEST_F(RunCopyTest, OneMayBeKept) {
  {
    RunCopy copy(url_, kept_);
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    for (const int64_t step : {1, 2, 3}) save(copy, step, step);
    EXPECT_TRUE(copy.finish());
  }
  store::set_cache_directory(directory_ / "second");
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  save(copy, 4, 4);
  checkpoint::remove_checkpoint(files_, store::join_path(copy.local(), "checkpoints"), checkpoint::step_directory(3));
  EXPECT_TRUE(copy.finish());
  const RunObjects there = list_run(url_);
  EXPECT_EQ(there.checkpoints.size(), 1U);
  EXPECT_TRUE(there.committed(4));
}

// It was killed after it had copied step 2, and before it removed step 1 there.
TEST_F(RunCopyTest, WhatAKilledStartCouldNotRemoveGoes) {
  const auto remove = [&](const RunCopy& copy, int64_t step) {
    checkpoint::remove_checkpoint(files_, store::join_path(copy.local(), "checkpoints"), checkpoint::step_directory(step));
  };
  {
    RunCopy copy(url_, kept_);
    copy.bring_up_to_date(/*leaves_checkpoints=*/false);
    for (const int64_t step : {1, 2}) save(copy, step, step);
    EXPECT_TRUE(copy.finish());
    remove(copy, 1);
  }
  RunCopy copy(url_, kept_);
  copy.bring_up_to_date(/*leaves_checkpoints=*/false);
  save(copy, 3, 3);
  remove(copy, 2);
  EXPECT_TRUE(copy.finish());
  const RunObjects there = list_run(url_);
  EXPECT_EQ(there.checkpoints.size(), 1U);
  EXPECT_TRUE(there.committed(3));
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
