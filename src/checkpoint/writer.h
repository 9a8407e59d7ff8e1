#pragma once
// One checkpoint as it is written: a file for each group of arrays, then the rest and the commit. docs/checkpoint_format.md has
// the order of the steps.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/stored_array.h"
#include "store/file.h"

namespace tessera::checkpoint {

// Writes `<directory>/step_N`, which is there whole after commit() or not at all. Every operation throws store::IoError; after
// that the only thing to do is to destroy the writer. Use from one thread at a time.
class CheckpointWriter {
 public:
  // Touches no file yet. 1 <= groups <= kMaxGroups.
  CheckpointWriter(store::FileSystem& files, std::string directory, int64_t step, size_t groups);
  // Without a commit, removes what was written; what cannot be removed is left to the next sweep.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes and syncs the file of the next group; the data are not needed afterwards.
  void write_group(const std::vector<HostTensor>& tensors);
  // After all groups: the state, what `before_commit` makes durable (it may throw), COMMIT, and the final name. Arrays that are
  // there twice, or of which a part is missing, are our own bug, and nothing is committed. Gives the checkpoint's path.
  std::string commit(const std::string& state_json, const std::function<void()>& before_commit);

 private:
  void begin();
  void write_state_json(const std::string& state_json);
  void write_commit();

  store::FileSystem& files_;
  const std::string directory_, path_, temporary_;
  const size_t groups_;
  Commit commit_;
  StoredArrays arrays_;  // what was written, without data
  bool committed_ = false;
};

}  // namespace tessera::checkpoint
