#include "checkpoint/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "checkpoint/commit.h"
#include "checkpoint/snapshots.h"
#include "store/faulty_files.h"
#include "store/memory_files.h"
#include "store/temp_dir.h"

namespace tessera::checkpoint {
namespace {

using ::testing::ElementsAre;
using testing::expect_snapshot;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::make_snapshot;
using testing::MemoryFiles;
using testing::PowerCut;
using testing::spill;
using testing::TempDir;

std::vector<int64_t> steps_in(const std::string& directory, store::FileSystem& files = store::local_files()) {
  std::vector<int64_t> steps;
  for (const auto& entry : files.list(directory)) {
    const auto name = parse_directory_name(entry.name);
    if (name && !name->writer) steps.push_back(name->step);
  }
  return steps;
}

int64_t newest_in(const std::string& directory, store::FileSystem& files = store::local_files()) {
  const auto latest = find_latest(directory, files);
  return latest.checkpoint ? latest.checkpoint->step : -1;
}

TEST(Manager, SavesInTheBackgroundAndKeepsByTheRules) {
  const TempDir directory;
  const std::string path = directory / "run/checkpoints";
  CheckpointManager manager(path, {2, 40});
  EXPECT_FALSE(manager.last_committed());
  for (int64_t step = 10; step <= 100; step += 10) manager.save_async(make_snapshot(step));
  manager.wait();
  EXPECT_EQ(manager.last_committed(), 100);
  EXPECT_FALSE(manager.poll_failure());
  EXPECT_EQ(manager.failures(), 0);
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{40, 80, 90, 100}));
  expect_snapshot(*find_latest(path).checkpoint, make_snapshot(100));
}

TEST(Manager, DestructionWaitsForTheSave) {
  const TempDir directory;
  { CheckpointManager(directory.path(), {1, 0}).save_async(make_snapshot(7)); }
  EXPECT_EQ(newest_in(directory.path()), 7);
}

TEST(Manager, BeforeCommitRunsWhileNothingIsCommitted) {
  const TempDir directory;
  Snapshot snapshot = make_snapshot(7);
  int calls = 0;
  snapshot.before_commit = [&] {
    ++calls;
    EXPECT_TRUE(steps_in(directory.path()).empty());
  };
  CheckpointManager manager(directory.path(), {1, 0});
  manager.save_async(std::move(snapshot));
  manager.wait();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(newest_in(directory.path()), 7);
}

TEST(Manager, WhoSavesIsToldHowItEnded) {
  const TempDir directory;
  std::vector<std::string> told;
  const auto snapshot_of = [&](int64_t step) {
    Snapshot snapshot = make_snapshot(step);
    snapshot.ended = [&](const std::string& failure) { told.push_back(failure); };
    return snapshot;
  };
  CheckpointManager manager(directory.path(), {1, 0});
  manager.save_async(snapshot_of(7));
  manager.wait();
  EXPECT_THAT(told, ElementsAre(""));
  Snapshot failing = snapshot_of(8);
  failing.before_commit = [] { throw data_error("the metrics are gone"); };
  manager.save_async(std::move(failing));
  manager.wait();
  EXPECT_THAT(told, ElementsAre("", HasSubstr("the checkpoint of step 8 could not be saved: the metrics are gone")));
  Snapshot unread = snapshot_of(9);
  unread.groups.front().read = []() -> std::vector<HostTensor> { throw device_error("the device is gone"); };
  EXPECT_THROW(manager.save_async(std::move(unread)), Error);
  EXPECT_THAT(told, ElementsAre("", HasSubstr("step 8"), "the save was given up"));
  EXPECT_EQ(manager.poll_failure()->step, 8);
}

TEST(Manager, AFailureBeforeTheCommitIsReportedAndCommitsNothing) {
  const TempDir directory;
  CheckpointManager manager(directory.path(), {1, 0});
  Snapshot snapshot = make_snapshot(7);
  snapshot.before_commit = [] { throw data_error("the metrics are lost"); };
  manager.save_async(std::move(snapshot));
  manager.wait();
  const auto failure = manager.poll_failure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->step, 7);
  EXPECT_THAT(failure->message, HasSubstr("the checkpoint of step 7 could not be saved: the metrics are lost"));
  EXPECT_FALSE(manager.poll_failure());
  EXPECT_EQ(manager.failures(), 1);
  EXPECT_TRUE(store::local_files().list(directory.path()).empty());
}

// A run must not go on after a check of our own failed. The next call throws it, once.
TEST(Manager, ABugIsNoFailedSave) {
  const TempDir directory;
  const auto with_bug = [] {
    Snapshot snapshot = make_snapshot(7);
    snapshot.before_commit = [] { TESSERA_CHECK(false, "of the test"); };
    return snapshot;
  };
  CheckpointManager manager(directory.path(), {1, 0});
  manager.save_async(with_bug());
  EXPECT_THROW(manager.wait(), InternalError);
  manager.save_async(with_bug());
  EXPECT_THROW(manager.save_async(make_snapshot(8)), InternalError);
  EXPECT_EQ(manager.failures(), 0);
  EXPECT_TRUE(store::local_files().list(directory.path()).empty());
  manager.save_async(make_snapshot(9));
  EXPECT_NO_THROW(manager.wait());
  EXPECT_EQ(newest_in(directory.path()), 9);
}

TEST(ManagerDeathTest, ABugThatNobodyWasToldOfEndsTheProgram) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        CheckpointManager manager("run", {1, 0}, *new MemoryFiles);
        Snapshot snapshot = make_snapshot(7);
        snapshot.before_commit = [] { TESSERA_CHECK(false, "of the test"); };
        manager.save_async(std::move(snapshot));
      },
      "");
}

TEST(Manager, NothingIsMadeWhereTheDirectoryWasMovedOrReplaced) {
  const TempDir directory;
  auto& files = store::local_files();
  const std::string path = directory / "run/checkpoints";
  CheckpointManager manager(path, {2, 0});
  const auto save = [&](int64_t step) {
    manager.save_async(make_snapshot(step));
    manager.wait();
    const auto failure = manager.poll_failure();
    return failure ? failure->message : "saved";
  };
  EXPECT_EQ(save(10), "saved");
  files.rename(directory / "run", directory / "moved");
  EXPECT_THAT(save(20), HasSubstr("checkpoints` was removed or renamed meanwhile, and nothing is written in its place"));
  EXPECT_FALSE(files.info(directory / "run"));
  files.make_directories(path);
  EXPECT_THAT(save(30), HasSubstr("checkpoints` was replaced meanwhile"));
  EXPECT_TRUE(files.list(path).empty());
  store::remove_tree(files, directory / "run");
  files.rename(directory / "moved", directory / "run");
  EXPECT_EQ(save(40), "saved");
  EXPECT_EQ(steps_in(path), (std::vector<int64_t>{10, 40}));
}

// Moves the directory above `path` away right behind the k-th time that `path` is looked at.
class MovingFiles : public FaultyFiles {
 public:
  MovingFiles(std::string path, int64_t k) : FaultyFiles(store::local_files()), path_(std::move(path)), left_(k) {}
  std::optional<store::FileInfo> info(const std::string& path) override {
    auto found = FaultyFiles::info(path);
    count(path);
    return found;
  }
  std::unique_ptr<store::Directory> open_directory(const std::string& path) override {
    auto opened = FaultyFiles::open_directory(path);
    count(path);
    return opened;
  }

 private:
  void count(const std::string& path) {
    if (path != path_ || left_-- != 0) return;
    const std::string above = store::parent_path(path);
    store::local_files().rename(above, above + ".moved");
  }
  std::string path_;
  int64_t left_;
};

TEST(Manager, NothingIsMadeWhereTheDirectoryIsMovedDuringASave) {
  for (int64_t k = 0;; ++k) {
    SCOPED_TRACE(k);
    const TempDir directory;
    const std::string path = directory / "run/checkpoints";
    store::local_files().make_directories(path);
    MovingFiles files(path, k + 1);  // not while the manager starts, which opens it
    CheckpointManager manager(path, {2, 0}, files);
    manager.save_async(make_snapshot(10));
    manager.wait();
    const auto failure = manager.poll_failure();
    const bool moved = store::local_files().info(directory / "run.moved").has_value();
    EXPECT_EQ(store::local_files().info(directory / "run").has_value(), !moved);
    if (!moved) {
      EXPECT_FALSE(failure);
      EXPECT_GT(k, 1) << "the file system was not asked";
      break;
    }
    EXPECT_TRUE(failure || newest_in(directory / "run.moved/checkpoints") == 10);
  }
}

TEST(Manager, BadRulesAreAUsageError) {
  const TempDir directory;
  EXPECT_THROW(CheckpointManager(directory.path(), {0, 0}), Error);
  EXPECT_THROW(CheckpointManager(directory.path(), {1, -1}), Error);
}

// The k-th operation of a save fails, for every k, once or for good: the checkpoint before stays, a warning names the failure,
// nothing half-written is left behind, and the next save works.
TEST(Manager, EveryFailingOperationLeavesThePreviousCheckpoint) {
  for (const bool sticky : {false, true}) {
    for (const int number : {ENOSPC, EIO}) {
      int64_t k = 0;
      for (bool fired = true; fired; ++k) {
        ASSERT_LT(k, 200);
        MemoryFiles files;
        FaultyFiles faulty(files);
        CheckpointManager manager("run", {1, 0}, faulty);
        manager.save_async(make_snapshot(10));
        manager.wait();
        faulty.fail_at(k, number, sticky);
        manager.save_async(make_snapshot(20));
        manager.wait();
        fired = faulty.fired();
        faulty.disarm();

        const auto failure = manager.poll_failure();
        const int64_t newest = newest_in("run", files);
        if (failure) {
          EXPECT_TRUE(newest == 10 || newest == 20) << "operation " << k;
          EXPECT_THAT(failure->message, HasSubstr(failure->committed ? "could not be removed" : "step 20 could not be saved"));
          EXPECT_TRUE(newest == 20 || !failure->committed) << "operation " << k;
        } else {
          EXPECT_EQ(newest, 20) << "operation " << k << " failed silently";
        }
        manager.save_async(make_snapshot(30));
        manager.wait();
        EXPECT_FALSE(manager.poll_failure()) << "operation " << k;
        EXPECT_EQ(newest_in("run", files), 30);
        sweep_leftovers(files, "run");
        EXPECT_EQ(files.list("run").size(), 1u) << "operation " << k;
      }
      EXPECT_GT(k, 15) << "the loop must reach every operation of a save";
    }
  }
}

// The power goes after the k-th operation, for every k and every state in which a disk may come back: the newest checkpoint
// whose save had ended is there, whole.
TEST(Manager, APowerCutAtAnyMomentKeepsAnEndedSave) {
  using Loss = MemoryFiles::Loss;
  for (const Loss loss : {Loss::kAllLost, Loss::kNamesKept, Loss::kContentsTorn}) {
    bool cut = true;
    int64_t k = 0;
    for (; cut; ++k) {
      ASSERT_LT(k, 300);
      MemoryFiles files;
      write_checkpoint(files, "run/checkpoints", make_snapshot(10));
      int64_t ended = 10;
      files.cut_after(k);
      try {
        for (const int64_t step : {20, 30}) {
          write_checkpoint(files, "run/checkpoints", make_snapshot(step));
          ended = step;
          apply_keep_rules(files, "run/checkpoints", {1, 0}, step);
        }
      } catch (const PowerCut&) {
      }
      cut = files.power_is_off();
      files.restart(loss);
      const LatestCheckpoint latest = find_latest("run/checkpoints", files);
      ASSERT_TRUE(latest.checkpoint) << "operation " << k;
      EXPECT_GE(latest.checkpoint->step, ended) << "operation " << k;
      expect_snapshot(*latest.checkpoint, make_snapshot(latest.checkpoint->step));
    }
    EXPECT_GT(k, 30);
  }
}

// Saving over a checkpoint of the same step (a damaged one, or one of a run that was set back) with the power going at any
// moment.
TEST(Manager, APowerCutWhileReplacingKeepsOneOfTheTwo) {
  using Loss = MemoryFiles::Loss;
  for (const Loss loss : {Loss::kAllLost, Loss::kNamesKept, Loss::kContentsTorn}) {
    bool cut = true;
    for (int64_t k = 0; cut; ++k) {
      ASSERT_LT(k, 300);
      MemoryFiles files;
      write_checkpoint(files, "c", make_snapshot(10));
      Snapshot second = make_snapshot(11);
      second.step = 10;
      files.cut_after(k);
      try {
        write_checkpoint(files, "c", second);
      } catch (const PowerCut&) {
      }
      cut = files.power_is_off();
      files.restart(loss);
      const LatestCheckpoint latest = find_latest("c", files);
      ASSERT_TRUE(latest.checkpoint) << "operation " << k;
      const bool is_new = latest.checkpoint->state_json == second.state_json;
      expect_snapshot(*latest.checkpoint, is_new ? second : make_snapshot(10));
      EXPECT_TRUE(is_new || cut);
    }
  }
}

TEST(Manager, ADamagedCheckpointOfTheSameStepIsPutAside) {
  const TempDir directory;
  CheckpointManager manager(directory.path(), {2, 0});
  manager.save_async(make_snapshot(10));
  manager.wait();
  spill(directory / "step_000000010/COMMIT", "damaged");
  manager.save_async(make_snapshot(10));
  manager.wait();
  EXPECT_FALSE(manager.poll_failure());
  EXPECT_EQ(newest_in(directory.path()), 10);
  EXPECT_EQ(testing::slurp(directory / "step_000000010.damaged/COMMIT"), "damaged");
  EXPECT_EQ(store::local_files().list(directory.path()).size(), 2u);
}

TEST(KeepRules, DamagedOnesNeitherCountNorGo) {
  const TempDir directory;
  auto& files = store::local_files();
  for (const int64_t step : {10, 20, 30, 40, 50}) write_checkpoint(files, directory.path(), make_snapshot(step));
  spill(directory / "step_000000040/COMMIT", "damaged");
  files.remove_file(directory / "step_000000030/COMMIT");  // half removed: the rest follows
  files.make_directories(directory / "my_own_notes");
  apply_keep_rules(files, directory.path(), {2, 0}, 50);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<int64_t>{20, 40, 50}));
  EXPECT_TRUE(files.info(directory / "my_own_notes"));
  apply_keep_rules(files, directory.path(), {1, 0}, 50);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<int64_t>{40, 50}));
}

TEST(KeepRules, TheBestStaysBesidesTheOthers) {
  const TempDir directory;
  CheckpointManager manager(directory.path(), {2, 0});
  const auto save = [&](int64_t step, int64_t best) {
    Snapshot snapshot = make_snapshot(step);
    snapshot.best = {best};
    manager.save_async(std::move(snapshot));
    manager.wait();
    return steps_in(directory.path());
  };
  save(10, 10);
  save(20, 10);
  save(30, 10);
  EXPECT_EQ(save(40, 10), (std::vector<int64_t>{10, 30, 40}));
  EXPECT_EQ(save(50, 50), (std::vector<int64_t>{40, 50}));
  save(60, 50);
  EXPECT_EQ(save(70, 50), (std::vector<int64_t>{50, 60, 70}));
}

TEST(KeepRules, CommitIsGoneForGoodBeforeTheDataGo) {
  MemoryFiles files;
  for (const int64_t step : {1, 2}) write_checkpoint(files, "c", make_snapshot(step));
  FaultyFiles recorder(files);
  apply_keep_rules(recorder, "c", {1, 0}, 2);
  const std::string path = "c/step_000000001";
  EXPECT_THAT(recorder.operations(), ElementsAre("remove " + path + "/COMMIT", "sync " + path, "remove " + path + "/state.json",
                                                 "remove " + path + "/state.safetensors", "remove " + path));
}

TEST(KeepRules, NewerStepsThanTheOneSavedStay) {
  const TempDir directory;
  auto& files = store::local_files();
  for (const int64_t step : {10, 20, 90}) write_checkpoint(files, directory.path(), make_snapshot(step));
  apply_keep_rules(files, directory.path(), {1, 0}, 20);
  EXPECT_EQ(steps_in(directory.path()), (std::vector<int64_t>{20, 90}));
}

TEST(Sweep, RemovesOnlyLeftoversOfDeadProcesses) {
  const TempDir directory;
  auto& files = store::local_files();
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const std::string gone = fmt::format("step_000000010.tmp-{}", dead), own = fmt::format("step_000000020.tmp-{}", getpid());
  const std::string alive = fmt::format("step_000000030.tmp-{}", getppid());
  for (const std::string& name : {gone, own, alive, std::string("step_x.tmp-1"), std::string("other.tmp-1")}) {
    files.make_directories(directory / name);
    spill(directory / (name + "/state.safetensors"), "half");
  }
  const CheckpointManager manager(directory.path(), {1, 0});
  EXPECT_FALSE(files.info(directory / gone));
  EXPECT_FALSE(files.info(directory / own));
  EXPECT_TRUE(files.info(directory / alive));
  EXPECT_TRUE(files.info(directory / "step_x.tmp-1"));
  EXPECT_TRUE(files.info(directory / "other.tmp-1"));
}

}  // namespace
}  // namespace tessera::checkpoint
