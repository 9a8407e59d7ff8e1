// What is removed in `…/checkpoints`, and what must not be: whatever a symbolic link leads to, and files of others.

#include "checkpoint/directories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/commit.h"
#include "checkpoint/snapshots.h"
#include "store/temp_dir.h"

namespace tessera::checkpoint {
namespace {

using testing::expect_snapshot;
using ::testing::HasSubstr;
using testing::make_snapshot;
using testing::slurp;
using testing::spill;
using testing::TempDir;

constexpr const char* kDead = ".tmp-999999999";  // above the largest process id

// `checkpoints` with step 40, and `precious` beside it: files that look like a checkpoint's, and one that doesn't.
class Links : public ::testing::Test {
 protected:
  void SetUp() override {
    files_.make_directories(precious());
    write_checkpoint(files_, checkpoints(), make_snapshot(40));
    for (const char* name : {"state.safetensors", "state.json", "thesis.tex"}) spill(precious() + "/" + name, "precious");
  }
  void TearDown() override {
    for (const char* name : {"state.safetensors", "state.json", "thesis.tex"}) {
      EXPECT_EQ(slurp(precious() + "/" + name), "precious") << name;
    }
    expect_snapshot(load(checkpoints() + "/step_000000040"), make_snapshot(40));
  }

  std::string checkpoints() const { return directory_ / "checkpoints"; }
  std::string precious() const { return directory_ / "precious"; }
  std::string link(const std::string& name) const {
    const std::string path = checkpoints() + "/" + name;
    EXPECT_EQ(symlink(precious().c_str(), path.c_str()), 0);
    return path;
  }
  bool exists(const std::string& path) { return files_.info(path).has_value(); }

  TempDir directory_;
  store::FileSystem& files_ = store::local_files();
};

TEST_F(Links, ALeftoverThatIsALinkIsUnlinked) {
  const std::string path = link(std::string("step_000000040") + kDead);
  sweep_leftovers(files_, checkpoints());
  EXPECT_FALSE(exists(path));
}

TEST_F(Links, AHalfRemovedCheckpointThatIsALinkIsUnlinked) {
  const std::string path = link("step_000000020");
  apply_keep_rules(files_, checkpoints(), {2, 0}, 40);
  EXPECT_FALSE(exists(path));
}

TEST_F(Links, APrunedCheckpointThatIsALinkIsUnlinked) {
  write_checkpoint(files_, directory_ / "elsewhere", make_snapshot(20));
  const std::string elsewhere = directory_ / "elsewhere/step_000000020", path = checkpoints() + "/step_000000020";
  ASSERT_EQ(symlink(elsewhere.c_str(), path.c_str()), 0);
  apply_keep_rules(files_, checkpoints(), {1, 0}, 40);
  EXPECT_FALSE(exists(path));
  expect_snapshot(load(elsewhere), make_snapshot(20));
}

TEST_F(Links, ASaveDoesNotWriteThroughALinkInItsPlaces) {
  link("step_000000060");
  link(fmt::format("step_000000060.tmp-{}", getpid()));
  write_checkpoint(files_, checkpoints(), make_snapshot(60));
  expect_snapshot(load(checkpoints() + "/step_000000060"), make_snapshot(60));
  EXPECT_TRUE(files_.info(checkpoints() + "/step_000000060.damaged")->symlink);
}

TEST_F(Links, ACheckpointThatIsALinkIsReplacedByASave) {
  write_checkpoint(files_, directory_ / "elsewhere", make_snapshot(60));
  const std::string elsewhere = directory_ / "elsewhere/step_000000060", path = checkpoints() + "/step_000000060";
  ASSERT_EQ(symlink(elsewhere.c_str(), path.c_str()), 0);
  Snapshot other = make_snapshot(61);
  other.step = 60;
  write_checkpoint(files_, checkpoints(), other);
  EXPECT_FALSE(files_.info(path)->symlink);
  expect_snapshot(load(path), other);
  expect_snapshot(load(elsewhere), make_snapshot(60));
}

TEST_F(Links, LinksInsideACheckpointAreUnlinked) {
  const std::string path = write_checkpoint(files_, checkpoints(), make_snapshot(20));
  files_.remove_file(path + "/state.json");
  ASSERT_EQ(symlink((precious() + "/state.json").c_str(), (path + "/state.json").c_str()), 0);
  remove_checkpoint(files_, checkpoints(), "step_000000020");
  EXPECT_FALSE(exists(path));
}

TEST(Directories, WhatOthersWroteStaysWithTheDirectory) {
  const TempDir directory;
  auto& files = store::local_files();
  const std::string path = write_checkpoint(files, directory.path(), make_snapshot(20));
  write_checkpoint(files, directory.path(), make_snapshot(40));
  spill(path + "/notes.txt", "mine");
  files.make_directories(path + "/state.json.d");
  ::testing::internal::CaptureStderr();
  for (int time = 0; time < 2; ++time) apply_keep_rules(files, directory.path(), {1, 0}, 40);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("holds what this program did not write (notes.txt, state.json.d)"));
  EXPECT_EQ(said.find("warning"), said.rfind("warning")) << "said once: " << said;
  EXPECT_EQ(slurp(path + "/notes.txt"), "mine");
  EXPECT_EQ(files.list(path).size(), 2u);
}

TEST(Directories, LeftoversOfNamesThatAreNotOursStay) {
  const TempDir directory;
  for (const char* name : {".mine", ".7x", ".failed.txt", ".swap.swap", ".3.failed.tmp-x"}) {
    spill(directory / (std::string("step_000000040") + kDead + name), "mine");
  }
  for (const char* name : {"", ".3", ".swap", ".3.failed", ".3.failed.tmp-12"}) {
    spill(directory / (std::string("step_000000040") + kDead + name), "ours");
  }
  sweep_leftovers(store::local_files(), directory.path());
  EXPECT_EQ(store::local_files().list(directory.path()).size(), 5u);
  for (const auto& entry : store::local_files().list(directory.path())) EXPECT_EQ(slurp(directory / entry.name), "mine");
}

TEST(Directories, OwnFilesAreToldApart) {
  for (const char* name : {"COMMIT", "state.json", "state.safetensors", "state-00001-of-00005.safetensors",
                           "part-00001-of-00003.json", "part-00001-of-00003.json.tmp-17"}) {
    EXPECT_TRUE(is_own_file(name)) << name;
  }
  for (const char* name :
       {"", "COMMIT~", "state.jsonl", "my.safetensors", "state-1-of-5.safetensors", "COMMIT\n", "part.json"}) {
    EXPECT_FALSE(is_own_file(name)) << name;
  }
}

TEST(Directories, WhatIsPutAsideIsNumberedAndNeverReadOrRemoved) {
  const TempDir directory;
  auto& files = store::local_files();
  std::vector<std::string> aside;
  for (int time = 0; time < 3; ++time) {
    write_checkpoint(files, directory.path(), make_snapshot(40));
    aside.push_back(put_aside(files, directory.path(), "step_000000040", kDamagedSuffix));
  }
  EXPECT_EQ(aside, (std::vector<std::string>{directory / "step_000000040.damaged", directory / "step_000000040.damaged.2",
                                             directory / "step_000000040.damaged.3"}));
  write_checkpoint(files, directory.path(), make_snapshot(20));
  EXPECT_EQ(find_latest(directory.path()).checkpoint->step, 20);
  write_checkpoint(files, directory.path(), make_snapshot(60));
  sweep_leftovers(files, directory.path());
  apply_keep_rules(files, directory.path(), {1, 0}, 60);
  EXPECT_EQ(files.list(directory.path()).size(), 4u);
}

TEST(Directories, CheckpointsOfAnotherRunAreNeitherRemovedNorReplaced) {
  const TempDir directory;
  auto& files = store::local_files();
  const auto save = [&](int64_t step, const std::string& run) {
    Snapshot snapshot = make_snapshot(step);
    snapshot.run = run;
    write_checkpoint(files, directory.path(), snapshot);
  };
  save(10, "");
  save(20, "theirs");
  save(30, "ours");
  save(60, "theirs");
  EXPECT_EQ(load(directory / "step_000000020").run, "theirs");
  EXPECT_EQ(load(directory / "step_000000010").run, "");
  save(60, "ours");
  EXPECT_EQ(load(directory / "step_000000060").run, "ours");
  EXPECT_EQ(load(directory / "step_000000060.other_run").run, "theirs");
  apply_keep_rules(files, directory.path(), {1, 0}, 60, "ours");
  std::vector<std::string> names;
  for (const auto& entry : files.list(directory.path())) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step_000000020", "step_000000060", "step_000000060.other_run"}));
}

TEST(Directories, ACheckpointUnderAnotherStepsNameIsDamaged) {
  const TempDir directory;
  auto& files = store::local_files();
  const std::string path = write_checkpoint(files, directory.path(), make_snapshot(40));
  EXPECT_EQ(condition_of(files, path), Condition::kWhole);
  files.rename(path, directory / "step_000000041");
  EXPECT_EQ(condition_of(files, directory / "step_000000041"), Condition::kDamaged);
  files.remove_file(directory / "step_000000041/COMMIT");
  EXPECT_EQ(condition_of(files, directory / "step_000000041"), Condition::kHalfRemoved);
}

}  // namespace
}  // namespace tessera::checkpoint
