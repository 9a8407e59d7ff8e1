#pragma once
// One checkpoint as it is written: a file for each group of arrays, then the rest and the commit; by one process, or by several
// together (joint_save.h). docs/formats/checkpoint.md has the order of the steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
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
  // Touches no file yet. 1 <= numbers.all <= kMaxGroups. `held`: the directory, open for as long as this lives, which is then
  // not made where it is gone; several writers on a disk need it. Of several, `save` tells their saves apart: all count alike.
  CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, FileNumbers numbers, Writers writers = {},
                   int64_t save = 0, store::Directory* held = nullptr);
  // Without a commit, removes what was written, as give_up().
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes and syncs the file of the next group; the data are not needed afterwards.
  void write_group(const std::vector<HostTensor>& tensors);
  // After all groups: the state, what `before_commit` makes durable (it may throw), COMMIT, and the final name. An array
  // that is there twice, or lacks a part, is our own bug, and nothing is committed. Gives the checkpoint's path. Of
  // several writers the first does this once all have written their groups, and the others wait for it.
  std::string commit(const std::string& state_json, const std::function<void()>& before_commit, const std::string& run = {});
  // Removes what was written, where this is the only writer or the first, and lets other writers know why; what cannot be
  // removed is left to the next sweep. Nothing after a commit. Gives why nothing was committed: what another writer told before
  // comes first. Never fails.
  std::string give_up(const std::string& why);

 private:
  // The files have their last names from the start: several writers in a bucket (Writers::words).
  bool in_place() const { return writers_.words != nullptr; }
  void begin();
  void begin_in_place();
  void take_prefix(std::string prefix);
  void commit_in_place() noexcept;
  void remove_written();
  void gather();
  void check_whole();
  void take_name();
  void remove_temporary();
  void write_state_json(const std::string& state_json);
  void write_commit();

  store::FileSystem& files_;
  const std::string directory_, path_, temporary_;
  const FileNumbers numbers_;
  const Writers writers_;
  store::Directory* const held_;
  std::optional<JointSave> joint_;  // of several writers
  Commit commit_;
  std::optional<std::string> replaced_;  // in_place(): COMMIT of the step, which stays until that of this save is there
  std::string prefix_;                   // of this save's files, which lie beside those of the other one
  StoredArrays arrays_;                  // what was written here, without data
  bool begun_ = false, commit_is_sent_ = false, ended_ = false;
  bool has_place_ = false;  // in_place(): it is known what is there of the step, and this save may write and remove
};

}  // namespace tessera::checkpoint
