#pragma once
// One checkpoint as it is written: a file for each group of arrays, then the rest and the commit; by one process, or by several
// together (joint_save.h). docs/formats/checkpoint.md has the order of the steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/directories.h"
#include "checkpoint/joint_save.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/stored_array.h"
#include "store/file.h"

namespace tessera::checkpoint {

// Which of a checkpoint's files of arrays one process writes: [first, first + own) of all.
struct FileNumbers {
  size_t first = 0, own = 1, all = 1;
};

// Writes `<directory>/step_N`, which is there whole after commit() or not at all. Every operation throws store::IoError; after
// that the only thing to do is to destroy the writer. Use from one thread at a time.
class CheckpointWriter {
 public:
  // Touches no file yet. 1 <= numbers.all <= kMaxGroups. `run`: whose it is (Snapshot::run). `held`: the directory, open for as
  // long as this lives, which is then not made where it is gone. Of several, `save` tells their saves apart: all count alike.
  CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, FileNumbers numbers, std::string run = {},
                   Writers writers = {}, int64_t save = 0, store::Directory* held = nullptr);
  // Without a commit, removes what was written, as give_up().
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes and syncs the file of the next group; the data are not needed afterwards.
  void write_group(const std::vector<HostTensor>& tensors);
  // After all groups: the state, what `before_commit` makes durable (it may throw), COMMIT, and the final name. An array
  // that is there twice, or lacks a part, is our own bug, and nothing is committed. Gives the checkpoint's path. Of
  // several writers the first does this once all have written their groups, and the others wait for it.
  std::string commit(const std::string& state_json, const std::function<void()>& before_commit);
  // After commit(), where the files lie on several hosts: the first says the steps of the checkpoints that stay, or nothing where
  // it does not know, and who leads another directory waits for that.
  void tell_kept(const std::optional<std::vector<int64_t>>& steps) {
    if (joint_) joint_->tell_kept(steps);
  }
  std::optional<std::vector<int64_t>> await_kept() { return joint_->await_kept(); }
  // Removes what was written, where this is the only writer or leads its directory, and lets other writers know why; what cannot
  // be removed is left to the next sweep. Nothing after a commit. Gives why nothing was committed: what another writer told
  // before comes first. Never fails.
  std::string give_up(const std::string& why);

 private:
  // The files have their last names from the start: those of several writers.
  bool in_place() const { return joint_.has_value(); }
  void expect_own() const {
    if (writers_.expect_own) writers_.expect_own();
  }
  void begin();
  void begin_together();
  void make_directory();
  void begin_in_place();
  Condition condition_in_place(const std::string& text) const;
  void make_room(Condition condition);
  void put_step_aside(Condition condition);
  void take_prefix(std::string prefix);
  void commit_together(const std::string& state_json, const std::function<void()>& before_commit);
  void commit_on_other_host();
  void remove_replaced() noexcept;
  void remove_written();
  void gather();
  void check_whole();
  void take_name();
  void remove_temporary();
  std::string state_text(const std::string& state_json) const;
  CommittedFile write_state_json(const std::string& text);
  void write_commit();
  void write_file(const std::string& path, const std::string& text);

  store::FileSystem& files_;
  const std::string directory_, path_, temporary_;  // of several writers the last two are the same
  const FileNumbers numbers_;
  const Writers writers_;
  store::Directory* const held_;
  std::optional<JointSave> joint_;  // of several writers
  Commit commit_;
  std::optional<std::string>
      replaced_;         // of the first in_place(): COMMIT of the step, which stays until that of this save is there
  std::string prefix_;   // of this save's files, which lie beside those of the other one
  StoredArrays arrays_;  // what was written here, without data
  bool begun_ = false, commit_is_sent_ = false, ended_ = false;
  bool has_place_ = false;  // in_place(): it is known what is there of the step, and this writer may remove
};

}  // namespace tessera::checkpoint
