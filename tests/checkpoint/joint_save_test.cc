// Several processes that write one checkpoint together.

#include "checkpoint/joint_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/directories.h"
#include "checkpoint/kept_words.h"
#include "checkpoint/manager.h"
#include "checkpoint/snapshots.h"
#include "store/encoding/crc32c.h"
#include "store/faulty_files.h"
#include "store/temp_dir.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::expect_snapshot;
using testing::FaultyFiles;
using ::testing::HasSubstr;
using testing::make_tensor;
using testing::spill;
using testing::TempDir;

constexpr int64_t kWriters = 3;

// What all of them save together: slices of two arrays, an array that only the first holds.
Snapshot everything(int64_t step) {
  const auto seed = static_cast<uint64_t>(step);
  Snapshot all =
      testing::sliced({make_tensor("params/w", {DType::kF32, {6, 4}}, seed),
                       make_tensor("opt/mu/w", {DType::kBF16, {3, 2, 4}}, seed), make_tensor("step", {DType::kI32, {}}, seed)},
                      kWriters, seed);
  all.step = step;
  all.state_json = fmt::format("{{\"position\":{}}}", step * 128);
  return all;
}

Snapshot part_of(const Snapshot& all, int64_t writer) {
  Snapshot part = all;
  const auto w = static_cast<size_t>(writer);
  part.groups = {all.groups[w]};
  part.groups_before = w;
  part.groups_after = all.groups.size() - w - 1;
  return part;
}

// As those of a bucket: a file is there, whole, once it is closed.
class ObjectFiles final : public FaultyFiles {
 public:
  using FaultyFiles::FaultyFiles;
  std::unique_ptr<store::WritableFile> create(const std::string& path) override {
    return std::make_unique<Object>(*this, path);
  }
  // From now on a COMMIT is lost on its way; deliver() brings the last one there after all.
  void hold_commits() { holds_commits_ = true; }
  void deliver() const { late_(); }

 private:
  class Object final : public store::WritableFile {
   public:
    Object(ObjectFiles& owner, std::string path) : owner_(owner), path_(std::move(path)) {}
    void write(std::span<const std::byte> bytes) override { text_.append(store::as_text(bytes)); }
    void flush() override {}
    void sync() override {}
    void close() override {
      const auto put = [path = path_, text = text_] {
        store::write_atomic(store::local_files(), path, std::string_view(text));
      };
      if (!owner_.holds_commits_ || !store::last_part(path_).starts_with(kCommitFile)) return put();
      owner_.late_ = [path = store::join_path(store::parent_path(path_), kCommitFile), text = text_] {
        store::write_atomic(store::local_files(), path, std::string_view(text));
      };
      throw store::IoError(ETIMEDOUT, "write", path_);
    }
    store::FileInfo info() const override { return {}; }

   private:
    ObjectFiles& owner_;
    const std::string path_;
    std::string text_;
  };

  bool holds_commits_ = false;
  std::function<void()> late_;
};

Writers writers_of(int64_t index, std::shared_ptr<SaveWords> words, milliseconds patience = std::chrono::minutes(10)) {
  Writers writers{.index = index, .count = kWriters};
  writers.patience = patience;
  writers.words = std::move(words);
  return writers;
}

// One process: its files, which a test can fail, and its manager.
struct Process {
  Process(const std::string& directory, const Writers& writers, const KeepRules& rules = {2, 0}, bool bucket = false)
      : index(writers.index),
        files(bucket ? static_cast<store::FileSystem&>(objects) : store::local_files()),
        manager(directory, rules, files, kMaxBytesInFlight, writers) {}

  int64_t index;
  ObjectFiles objects{store::local_files()};
  FaultyFiles files;
  CheckpointManager manager;
};

using Processes = std::vector<std::unique_ptr<Process>>;

// `bucket`: with files as those of one.
Processes start(const std::string& directory, const KeepRules& rules = {2, 0}, bool bucket = false) {
  const auto words = std::make_shared<testing::KeptWords>();
  Processes all;
  for (int64_t i = 0; i < kWriters; ++i)
    all.push_back(std::make_unique<Process>(directory, writers_of(i, words), rules, bucket));
  return all;
}

// Begins with the last of them, so that those who wait for the first one do wait.
void save(Processes& processes, const Snapshot& all) {
  for (auto p = processes.rbegin(); p != processes.rend(); ++p) (*p)->manager.save_async(part_of(all, (*p)->index));
  for (const auto& process : processes) process->manager.wait();
}
void save(Processes& processes, int64_t step) { save(processes, everything(step)); }

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : store::local_files().list(directory)) names.push_back(entry.name);
  return names;
}

TEST(JointSave, AllWriteOneCheckpoint) {
  const TempDir directory;
  Processes processes = start(directory.path());
  for (const int64_t step : {10, 20, 30}) save(processes, step);
  for (const auto& process : processes) {
    EXPECT_FALSE(process->manager.poll_failure());
    EXPECT_EQ(process->manager.last_committed(), 30);
  }
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"step_000000020", "step_000000030"}));
  EXPECT_EQ(names_in(directory / "step_000000030"),
            (std::vector<std::string>{"COMMIT", "state-00001-of-00003.safetensors", "state-00002-of-00003.safetensors",
                                      "state-00003-of-00003.safetensors", "state.json"}));
  for (const int64_t step : {20, 30}) expect_snapshot(load(directory / step_directory(step)), everything(step));
}

TEST(JointSave, SomeMayHaveNothingToWrite) {
  const TempDir directory;
  Processes processes = start(directory.path());
  Snapshot all;
  all.step = 5;
  all.add({make_tensor("step", {DType::kI32, {}}, 5)});
  for (const auto& process : processes) {
    Snapshot part = all;
    if (process->index != 1) part.groups.clear();
    part.groups_before = process->index > 1 ? 1 : 0;
    part.groups_after = process->index < 1 ? 1 : 0;
    process->manager.save_async(std::move(part));
  }
  for (const auto& process : processes) process->manager.wait();
  expect_snapshot(load(directory / step_directory(5)), all);
}

TEST(JointSave, ADamagedCheckpointOfTheSameStepIsPutAside) {
  const TempDir directory;
  Processes processes = start(directory.path());
  save(processes, 10);
  spill(directory / "step_000000010/COMMIT", "damaged");
  save(processes, 10);
  for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
  expect_snapshot(load(directory / step_directory(10)), everything(10));
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"step_000000010", "step_000000010.damaged"}));
}

// The arrays are not whole: nobody commits.
TEST(JointSave, WhatIsMissingIsNotCommitted) {
  const TempDir directory;
  Processes processes = start(directory.path());
  for (const auto& process : processes) {
    Snapshot part = part_of(everything(10), process->index);
    if (process->index == 2) part.groups[0] = part_of(everything(10), 1).groups[0];
    process->manager.save_async(std::move(part));
  }
  for (const auto& process : processes) {
    process->manager.wait();
    ASSERT_TRUE(process->manager.poll_failure()) << process->index;
  }
  EXPECT_FALSE(find_latest(directory.path()).checkpoint);
}

TEST(JointSave, OneThatFailsIsNamedByTheOthers) {
  for (const int64_t failing : {0, 1}) {
    const TempDir directory;
    Processes processes = start(directory.path());
    for (const auto& process : processes) {
      Snapshot part = part_of(everything(10), process->index);
      if (process->index == failing) {
        part.groups[0].read = []() -> std::vector<HostTensor> { throw data_error("the device is lost"); };
        EXPECT_THROW(process->manager.save_async(std::move(part)), Error);
        continue;
      }
      process->manager.save_async(std::move(part));
    }
    for (const auto& process : processes) {
      process->manager.wait();
      const auto failure = process->manager.poll_failure();
      if (process->index == failing) continue;
      ASSERT_TRUE(failure) << process->index;
      EXPECT_THAT(failure->message, HasSubstr(fmt::format("process {} of 3: ", failing + 1)));
    }
    save(processes, 10);
    for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
    expect_snapshot(load(directory / step_directory(10)), everything(10));
    processes = start(directory.path());
    EXPECT_EQ(names_in(directory.path()).size(), 1u) << "the first one sweeps at its start";
  }
}

// As a client of NFS does: what it was told is not there, is not there for it until it lists the directory.
class RemembersAbsence : public FaultyFiles {
 public:
  using FaultyFiles::FaultyFiles;
  std::optional<store::FileInfo> info(const std::string& path) override {
    if (absent_.contains(path)) return std::nullopt;
    auto found = FaultyFiles::info(path);
    if (!found) absent_.insert(path);
    return found;
  }
  std::vector<store::FileInfo> list(const std::string& path) override {
    std::erase_if(absent_, [&](const std::string& absent) { return store::parent_path(absent) == path; });
    return FaultyFiles::list(path);
  }

 private:
  std::set<std::string> absent_;
};

TEST(JointSave, SeesWhatCameSinceItLooked) {
  const TempDir directory;
  std::vector<std::unique_ptr<RemembersAbsence>> files;
  std::vector<std::unique_ptr<CheckpointManager>> managers;
  const auto words = std::make_shared<testing::KeptWords>();
  for (int64_t i = 0; i < kWriters; ++i) {
    files.push_back(std::make_unique<RemembersAbsence>(store::local_files()));
    managers.push_back(std::make_unique<CheckpointManager>(directory.path(), KeepRules{2, 0}, *files.back(), kMaxBytesInFlight,
                                                           writers_of(i, words)));
  }
  for (int64_t i = kWriters; i-- > 0;) managers[static_cast<size_t>(i)]->save_async(part_of(everything(10), i));
  for (const auto& manager : managers) manager->wait();
  for (const auto& manager : managers) EXPECT_FALSE(manager->poll_failure());
  expect_snapshot(load(directory / step_directory(10)), everything(10));
}

TEST(JointSave, AStepThatIsSavedAgainGetsOtherNames) {
  const TempDir directory;
  Processes processes = start(directory.path());
  for (const int64_t step : {10, 20, 30, 30}) save(processes, step);
  for (const auto& process : processes) {
    EXPECT_FALSE(process->manager.poll_failure());
    EXPECT_EQ(process->manager.last_committed(), 30);
  }
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"step_000000020", "step_000000030"}));
  EXPECT_EQ(names_in(directory / "step_000000030"),
            (std::vector<std::string>{"COMMIT", "r2-state-00001-of-00003.safetensors", "r2-state-00002-of-00003.safetensors",
                                      "r2-state-00003-of-00003.safetensors", "r2-state.json"}));
  for (const int64_t step : {20, 30}) expect_snapshot(load(directory / step_directory(step)), everything(step));
}

// The step's checkpoint is the only one, and is whole whatever fails while it is saved again, and whoever is gone.
TEST(JointSave, AStepThatIsSavedAgainIsThereAtEveryMoment) {
  Snapshot again = everything(11);
  again.step = 10;
  for (const bool bucket : {false, true}) {
    for (const bool gone : {false, true}) {
      for (const size_t failing : {0, 1}) {
        int64_t k = 0;
        for (bool fired = true; fired; ++k) {
          ASSERT_LT(k, 400);
          const TempDir directory;
          Processes processes = start(directory.path(), {1, 0}, bucket);
          save(processes, 10);
          processes[failing]->files.fail_at(k, EIO, /*sticky=*/gone);
          save(processes, again);
          fired = processes[failing]->files.fired();
          processes[failing]->files.disarm();
          const auto failure = processes[0]->manager.poll_failure();
          const LoadedCheckpoint there = load(directory / step_directory(10));
          // Where COMMIT was renamed before the failure, the new one is there.
          const bool committed = !failure || failure->committed || there.state_json == again.state_json;
          expect_snapshot(there, committed ? again : everything(10));
          processes = start(directory.path(), {1, 0}, bucket);
          save(processes, again);
          for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure()) << "operation " << k;
          EXPECT_EQ(names_in(directory / step_directory(10)).size(), 5u) << "operation " << k;
          expect_snapshot(load(directory / step_directory(10)), again);
        }
        EXPECT_GT(k, failing == 0 ? 10 : 3) << "the loop must reach every operation of a save";
      }
    }
  }
}

// As a server may do with a request that it did not answer.
TEST(JointSave, ACommitThatComesLateHasItsFiles) {
  Snapshot again = everything(11);
  again.step = 10;
  const TempDir directory;
  Processes processes = start(directory.path(), {1, 0}, /*bucket=*/true);
  save(processes, 10);
  processes[0]->objects.hold_commits();
  save(processes, again);
  const auto failure = processes[0]->manager.poll_failure();
  EXPECT_TRUE(failure && !failure->committed);
  expect_snapshot(load(directory / step_directory(10)), everything(10));
  processes[0]->objects.deliver();
  expect_snapshot(load(directory / step_directory(10)), again);
}

// It may have what this one does not know of.
TEST(JointSave, ACheckpointOfANewerVersionStays) {
  const TempDir directory;
  Processes processes = start(directory.path(), {1, 0});
  save(processes, 10);
  const std::string path = directory / step_directory(10), commit = store::join_path(path, kCommitFile);
  Commit newer = read_commit(store::local_files(), path);
  newer.version = 99;
  spill(commit, commit_text(newer));
  const std::vector<std::string> before = names_in(path);
  save(processes, 10);
  const auto failure = processes[0]->manager.poll_failure();
  ASSERT_TRUE(failure && !failure->committed);
  EXPECT_THAT(failure->message, HasSubstr("has format version 99"));
  EXPECT_EQ(names_in(path), before);
}

TEST(JointSave, OneOfThoseThatFailsIsNamedByTheOthers) {
  for (const size_t failing : {0, 1}) {
    const TempDir directory;
    Processes processes = start(directory.path());
    save(processes, 10);
    processes[failing]->files.fail_at(0, ENOSPC, /*sticky=*/true);
    save(processes, 20);
    processes[failing]->files.disarm();
    for (const auto& process : processes) {
      const auto failure = process->manager.poll_failure();
      ASSERT_TRUE(failure) << process->index;
      if (static_cast<size_t>(process->index) == failing) continue;
      EXPECT_THAT(failure->message, HasSubstr(fmt::format("process {} of 3: ", failing + 1)));
    }
    const auto latest = find_latest(directory.path());
    ASSERT_TRUE(latest.checkpoint);
    expect_snapshot(*latest.checkpoint, everything(10));
    save(processes, 20);
    for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
    expect_snapshot(load(directory / step_directory(20)), everything(20));
  }
}

// It has the place of the new one.
TEST(JointSave, ASaveThatDoesNotBeginLeavesTheCheckpointOfTheStep) {
  const TempDir directory;
  Processes processes = start(directory.path());
  save(processes, 10);
  for (auto p = processes.rbegin(); p != processes.rend(); ++p) {
    Snapshot part = part_of(everything(10), (*p)->index);
    if ((*p)->index > 0) {
      (*p)->manager.save_async(std::move(part));
      continue;
    }
    part.groups[0].read = []() -> std::vector<HostTensor> { throw data_error("the device is lost"); };
    EXPECT_THROW((*p)->manager.save_async(std::move(part)), Error);
  }
  for (const auto& process : processes) process->manager.wait();
  expect_snapshot(load(directory / step_directory(10)), everything(10));
}

// A first process that was taken for dead goes on while the next start of the run has the directory.
TEST(JointSave, WhatIsAnotherOnesByNowStays) {
  const TempDir directory;
  std::atomic<bool> lost = false;
  const auto words = std::make_shared<testing::KeptWords>();
  Processes processes;
  for (int64_t i = 0; i < kWriters; ++i) {
    Writers writers = writers_of(i, words);
    if (i == 0) {
      writers.expect_own = [&lost] {
        if (lost) throw data_error("the run is another one's now");
      };
    }
    processes.push_back(std::make_unique<Process>(directory.path(), writers));
  }
  save(processes, 10);
  lost = true;
  save(processes, 10);
  for (const auto& process : processes) {
    const auto failure = process->manager.poll_failure();
    ASSERT_TRUE(failure) << process->index;
    EXPECT_THAT(failure->message, HasSubstr("another one's now"));
  }
  expect_snapshot(load(directory / step_directory(10)), everything(10));
}

// One is gone in the middle of a save, and cannot say so.
TEST(JointSave, WhatOneDoesNotHandInIsNotRead) {
  const TempDir directory;
  Processes processes = start(directory.path());
  save(processes, 10);
  const auto words = std::make_shared<testing::KeptWords>();
  processes.clear();
  for (int64_t i = 0; i + 1 < kWriters; ++i)
    processes.push_back(std::make_unique<Process>(directory.path(), writers_of(i, words, milliseconds(500))));
  save(processes, 20);
  for (const auto& process : processes) {
    const auto failure = process->manager.poll_failure();
    ASSERT_TRUE(failure) << process->index;
    EXPECT_FALSE(failure->committed);
  }
  EXPECT_FALSE(store::local_files().info(directory / "step_000000020/COMMIT"));
  const auto latest = find_latest(directory.path());
  ASSERT_TRUE(latest.checkpoint);
  expect_snapshot(*latest.checkpoint, everything(10));
}

// A directory that has taken the place of the run's is somebody else's.
TEST(JointSave, NothingIsWrittenIntoADirectoryThatReplacedTheirs) {
  const TempDir directory;
  const std::string checkpoints = directory / "checkpoints";
  Processes processes = start(checkpoints);
  store::local_files().rename(checkpoints, directory / "before");
  store::local_files().make_directories(checkpoints);
  save(processes, 10);
  for (const auto& process : processes) {
    const auto failure = process->manager.poll_failure();
    ASSERT_TRUE(failure) << process->index;
    EXPECT_THAT(failure->message, HasSubstr("was replaced meanwhile"));
  }
  EXPECT_TRUE(names_in(checkpoints).empty());
  EXPECT_TRUE(names_in(directory / "before").empty());
}

// What is there after a save of step 20 in which one process could fail: a whole checkpoint, which is that of step 10 where a
// process says that it did. After a new start saving works.
void expect_whole_and_go_on(const TempDir& directory, Processes& processes, int64_t k) {
  const auto latest = find_latest(directory.path());
  ASSERT_TRUE(latest.checkpoint) << "operation " << k;
  expect_snapshot(*latest.checkpoint, everything(latest.checkpoint->step));
  for (const auto& process : processes) {
    const auto failure = process->manager.poll_failure();
    const bool told = failure && !failure->committed;
    EXPECT_TRUE(told || latest.checkpoint->step == 20) << "operation " << k;
  }
  processes = start(directory.path(), {1, 0});
  save(processes, 30);
  for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure()) << "operation " << k;
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"step_000000030"})) << "operation " << k;
}

TEST(JointSave, EveryFailingOperationLeavesAWholeCheckpoint) {
  for (const size_t failing : {0, 1}) {
    int64_t k = 0;
    for (bool fired = true; fired; ++k) {
      ASSERT_LT(k, 400);
      const TempDir directory;
      Processes processes = start(directory.path(), {1, 0});
      save(processes, 10);
      processes[failing]->files.fail_at(k, ENOSPC);
      save(processes, 20);
      fired = processes[failing]->files.fired();
      processes[failing]->files.disarm();
      expect_whole_and_go_on(directory, processes, k);
    }
    EXPECT_GT(k, failing == 0 ? 10 : 4) << "the loop must reach every operation of a save";
  }
}

// Saves one step and tells whether it was committed.
bool saves(const std::string& directory, const Writers& writers, Snapshot snapshot, std::string* why = nullptr) {
  CheckpointManager manager(directory, {2, 0}, store::local_files(), kMaxBytesInFlight, writers);
  manager.save_async(std::move(snapshot));
  manager.wait();
  const auto failure = manager.poll_failure();
  if (failure && why) *why = failure->message;
  return !failure;
}

TEST(JointSave, NobodyWaitsForProcessesThatHaveEnded) {
  const TempDir directory;
  for (int64_t i = 0; i < kWriters; ++i) {
    Writers writers = writers_of(i, std::make_shared<testing::KeptWords>(), std::chrono::hours(24));
    writers.alone = std::make_shared<std::atomic<bool>>(true);
    std::string why;
    EXPECT_FALSE(saves(directory.path(), writers, part_of(everything(10), i), &why));
    EXPECT_THAT(why, HasSubstr(i == 0 ? "process 2 has not ended writing, and the other processes have ended" : "process"));
  }
}

// Words of processes that have no memory in common.
class WordsOnDisk final : public SaveWords {
 public:
  explicit WordsOnDisk(std::string directory) : directory_(std::move(directory)) {}
  void put(const std::string& name, const std::string& text) override {
    store::write_atomic(store::local_files(), path_of(name), std::string_view(text));
  }
  std::optional<std::string> find(const std::string& name) override {
    store::FileSystem& files = store::local_files();
    return files.info(path_of(name)) ? std::optional(store::read_text(files, path_of(name))) : std::nullopt;
  }

 private:
  std::string path_of(std::string name) const {
    std::ranges::replace(name, '/', '.');
    return store::join_path(directory_, name);
  }

  const std::string directory_;
};

// Real processes, one of which is killed in the middle of a save: the others notice, and the checkpoint before is the newest.
TEST(JointSave, AKilledProcessIsMissed) {
  const TempDir directory, words;
  const auto writers = [&](int64_t index, int64_t start, milliseconds patience = std::chrono::minutes(10)) {
    const std::string of_start = words / std::to_string(start);
    store::local_files().make_directories(of_start);
    return writers_of(index, std::make_shared<WordsOnDisk>(of_start), patience);
  };
  constexpr int64_t kKilled = 2;
  std::vector<pid_t> children;
  for (int64_t i = 1; i < kWriters; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Snapshot second = part_of(everything(20), i);
      if (i == kKilled) second.groups[0].read = []() -> std::vector<HostTensor> { _exit(9); };
      const bool expected = saves(directory.path(), writers(i, 1), part_of(everything(10), i)) &&
                            !saves(directory.path(), writers(i, 2), std::move(second));
      _exit(expected ? 0 : 1);
    }
    children.push_back(child);
  }
  EXPECT_TRUE(saves(directory.path(), writers(0, 1), part_of(everything(10), 0)));
  std::string why;
  EXPECT_FALSE(saves(directory.path(), writers(0, 2, milliseconds(2000)), part_of(everything(20), 0), &why));
  EXPECT_THAT(why, HasSubstr("has not ended writing within 2 s"));
  for (int64_t i = 1; i < kWriters; ++i) {
    int status = 0;
    waitpid(children[static_cast<size_t>(i - 1)], &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), i == kKilled ? 9 : 0) << "process " << i + 1;
  }
  expect_snapshot(*find_latest(directory.path()).checkpoint, everything(10));
}

// Two processes of one host and one of another, each host with a directory of its own.
class JointSaveOnHosts : public ::testing::Test {
 protected:
  Processes start(const KeepRules& rules = {1, 0}) {
    const auto words = std::make_shared<testing::KeptWords>();
    Processes all;
    for (int64_t i = 0; i < kWriters; ++i) {
      Writers writers = writers_of(i, words);
      writers.directory_of = {0, 0, 2};
      all.push_back(std::make_unique<Process>(i == 2 ? there_.path() : here_.path(), writers, rules));
    }
    return all;
  }
  // The files of both, as the first one's COMMIT lists them.
  LoadedCheckpoint together(int64_t step) const {
    store::FileSystem& files = store::local_files();
    const std::string all = both_ / step_directory(step);
    fs::remove_all(all);
    files.make_directories(all);
    const Commit commit = read_commit(files, here_ / step_directory(step));
    spill(store::join_path(all, kCommitFile), commit_text(commit));
    for (const CommittedFile& file : commit.files) {
      for (const TempDir* host : {&here_, &there_}) {
        const std::string path = store::join_path(*host / step_directory(step), file.name);
        if (!files.info(path)) continue;
        const std::string text = store::read_text(files, path);
        if (store::crc32c(store::as_bytes(text)) == file.crc32c) spill(store::join_path(all, file.name), text);
      }
    }
    return load(all);
  }

  const TempDir here_, there_, both_;
};

TEST_F(JointSaveOnHosts, EachHasItsOwnFiles) {
  Processes processes = start({2, 0});
  for (const int64_t step : {10, 20, 30}) save(processes, step);
  for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
  EXPECT_EQ(names_in(here_.path()), (std::vector<std::string>{"step_000000020", "step_000000030"}));
  EXPECT_EQ(names_in(there_.path()), names_in(here_.path())) << "each host keeps the same steps";
  EXPECT_EQ(names_in(here_ / "step_000000030"), (std::vector<std::string>{"COMMIT", "state-00001-of-00003.safetensors",
                                                                          "state-00002-of-00003.safetensors", "state.json"}));
  EXPECT_EQ(names_in(there_ / "step_000000030"),
            (std::vector<std::string>{"COMMIT", "state-00003-of-00003.safetensors", "state.json"}));
  for (const int64_t step : {20, 30}) expect_snapshot(together(step), everything(step));
  for (const TempDir* host : {&here_, &there_}) {
    try {
      find_latest(host->path());
      FAIL();
    } catch (const Error& error) {
      EXPECT_TRUE(is_elsewhere(error));
      EXPECT_THAT(error.message(), HasSubstr("step_000000030` has the files of one host"));
    }
    EXPECT_EQ(condition_of(store::local_files(), *host / "step_000000030"), Condition::kWhole) << "nothing is damaged";
  }
}

// Whatever fails, on whichever host: the first one's COMMIT lists files that are there.
TEST_F(JointSaveOnHosts, AStepThatIsSavedAgainIsThereAtEveryMoment) {
  Snapshot again = everything(11);
  again.step = 10;
  for (const bool gone : {false, true}) {
    for (const size_t failing : {0, 1, 2}) {
      int64_t k = 0;
      for (bool fired = true; fired; ++k) {
        ASSERT_LT(k, 400);
        for (const TempDir* host : {&here_, &there_}) fs::remove_all(*host / step_directory(10));
        Processes processes = start();
        save(processes, 10);
        processes[failing]->files.fail_at(k, EIO, /*sticky=*/gone);
        save(processes, again);
        fired = processes[failing]->files.fired();
        processes[failing]->files.disarm();
        const auto failure = processes[0]->manager.poll_failure();
        const LoadedCheckpoint loaded = together(10);
        const bool committed = !failure || failure->committed || loaded.state_json == again.state_json;
        expect_snapshot(loaded, committed ? again : everything(10));
        processes = start();
        save(processes, again);
        for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure()) << "operation " << k;
        expect_snapshot(together(10), again);
        EXPECT_EQ(names_in(here_ / step_directory(10)).size(), 4u) << "operation " << k;
        EXPECT_EQ(names_in(there_ / step_directory(10)).size(), 3u) << "operation " << k;
      }
      EXPECT_GT(k, failing == 1 ? 3 : 10) << "the loop must reach every operation of a save";
    }
  }
}

// The first process has failed once the other host had its COMMIT: that one and the first's list other files, and the first's count.
TEST_F(JointSaveOnHosts, WhatTheFirstOnesCommitListsStays) {
  Snapshot again = everything(11);
  again.step = 10;
  const std::string of_first = here_ / step_directory(10), of_other = there_ / step_directory(10);
  const auto prefix_in = [](const std::string& path) {
    return std::string(name_prefix(read_commit(store::local_files(), path).files[0].name));
  };
  Processes processes;
  for (int64_t k = 0; k == 0 || prefix_in(of_first) == prefix_in(of_other); ++k) {
    ASSERT_LT(k, 400);
    for (const std::string& path : {of_first, of_other}) fs::remove_all(path);
    processes = start();
    save(processes, 10);
    processes[0]->files.fail_at(k, EIO);
    save(processes, again);
  }
  expect_snapshot(together(10), everything(10));
  processes = start();
  processes[1]->files.fail_at(0, EIO, /*sticky=*/true);
  save(processes, again);
  expect_snapshot(together(10), everything(10));
  processes = start();
  save(processes, again);
  expect_snapshot(together(10), again);
  EXPECT_EQ(prefix_in(of_first), prefix_in(of_other));
}

// A save that the first process did not commit has left its part on the other host, which then has one more.
TEST_F(JointSaveOnHosts, TheFirstSaysWhatStays) {
  Processes processes = start({2, 0});
  save(processes, 10);
  const std::string step_10 = there_ / step_directory(10), step_20 = there_ / step_directory(20);
  fs::copy(step_10, step_20);
  Commit left = read_commit(store::local_files(), step_10);
  left.step = 20;
  spill(store::join_path(step_20, kCommitFile), commit_text(left));
  save(processes, 30);
  EXPECT_EQ(names_in(here_.path()), (std::vector<std::string>{"step_000000010", "step_000000030"}));
  EXPECT_EQ(names_in(there_.path()), names_in(here_.path()));
  for (const int64_t step : {10, 30}) expect_snapshot(together(step), everything(step));

  // One of the step that is saved: it is no checkpoint, and gives way.
  left.step = 40;
  fs::copy(step_10, there_ / step_directory(40));
  spill(store::join_path(there_ / step_directory(40), kCommitFile), commit_text(left));
  save(processes, 40);
  for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
  expect_snapshot(together(40), everything(40));
  EXPECT_EQ(names_in(there_.path()), (std::vector<std::string>{"step_000000030", "step_000000040", "step_000000040.damaged"}));
}

// Another run's checkpoint, on the other host alone.
TEST_F(JointSaveOnHosts, ACheckpointOfAnotherRunIsPutAside) {
  Snapshot other = everything(10);
  other.run = "other";
  write_checkpoint(store::local_files(), there_.path(), other);
  Processes processes = start();
  Snapshot own = everything(10);
  own.run = "own";
  save(processes, own);
  for (const auto& process : processes) EXPECT_FALSE(process->manager.poll_failure());
  EXPECT_EQ(names_in(there_.path()), (std::vector<std::string>{"step_000000010", "step_000000010.other_run"}));
  expect_snapshot(together(10), own);
}

}  // namespace
}  // namespace tessera::checkpoint
