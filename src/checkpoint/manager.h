#pragma once
// Writing checkpoints in the background, each whole or not there at all, and removing old ones.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/shape.h"
#include "checkpoint/checkpoint.h"
#include "store/bytes.h"
#include "store/file.h"

namespace tessera::checkpoint {

// A named array of a snapshot; `data.size() == byte_count(type)`.
struct HostTensor {
  std::string name;
  TensorType type;
  store::Bytes data;
};

// Everything one checkpoint holds. The memory must stay unchanged until the save has ended (`data.owner` keeps it alive).
struct Snapshot {
  int64_t step = 0;                     // 0 <= step
  std::vector<HostTensor> tensors;      // names are unique
  std::string state_json = "{}";        // any JSON value: data position, seeds, …
  std::function<void()> before_commit;  // called on the writer thread before COMMIT is written: make the metrics durable here
};

// Which checkpoints stay. The newest whole one always does.
struct KeepRules {
  int64_t keep_last = 2;         // >= 1
  int64_t keep_every_steps = 0;  // those at multiples of this stay for ever; 0: none
};

// A save that went wrong. Earlier checkpoints are as they were, and nothing half-written is left under a checkpoint's name.
struct SaveFailure {
  int64_t step = 0;
  bool committed = false;  // true: the checkpoint is written, only the removal of older ones failed
  std::string message;
};

// One writer thread, at most one save under way. Call from one thread.
class CheckpointManager {
 public:
  // Creates `directory` (…/checkpoints) and removes what interrupted saves of dead processes left there.
  CheckpointManager(std::string directory, KeepRules rules, store::FileSystem& files = store::local_files());
  // Waits; a failure that nobody polled is logged as a warning.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Waits for the save before, then returns at once.
  void save_async(Snapshot snapshot);
  void wait();
  // The oldest failure not returned yet. Does not wait.
  std::optional<SaveFailure> poll_failure();
  // Failures so far, polled or not: the program's exit code depends on it.
  int64_t failures() const;
  // The step of the last save that was committed by this manager.
  std::optional<int64_t> last_committed() const;

 private:
  void run();
  void save(const Snapshot& snapshot);

  const std::string directory_;
  const KeepRules rules_;
  store::FileSystem& files_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Snapshot> next_;  // set by save_async, taken by the writer when it is done with it
  bool stopping_ = false;
  std::vector<SaveFailure> unpolled_;
  int64_t failures_ = 0;
  std::optional<int64_t> last_committed_;
  std::thread writer_;  // last: it uses what is above
};

// One save from start to commit, without threads: what the manager's thread does. Returns the checkpoint's path. Throws
// store::IoError after removing what it had written.
std::string write_checkpoint(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot);

// Removes checkpoints that the rules don't keep, where `newest` is known to be whole. Damaged ones are left for a person to
// look at.
void apply_keep_rules(store::FileSystem& files, const std::string& directory, const KeepRules& rules, int64_t newest);

// Removes `step_*.tmp-<pid>` whose process is dead or this one. Errors are ignored: it is tried again next time.
void sweep_leftovers(store::FileSystem& files, const std::string& directory);

}  // namespace tessera::checkpoint
