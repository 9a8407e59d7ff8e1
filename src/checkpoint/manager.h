#pragma once
// Writing checkpoints in the background, each whole or not there at all, and removing old ones.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/writer.h"
#include "store/file.h"

namespace tessera::checkpoint {

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

// Host memory for data that were read and are not written yet.
inline constexpr int64_t kMaxBytesInFlight = int64_t{2} << 30;

// One writer thread, at most one save under way. Call from one thread.
class CheckpointManager {
 public:
  // Creates `directory` (…/checkpoints) and removes what interrupted saves of dead processes left there. Of several writers
  // only those that lead a directory remove anything; each must be given the same saves in the same order. A local directory is
  // held open; one in a bucket is not.
  CheckpointManager(std::string directory, KeepRules rules, store::FileSystem& files = store::local_files(),
                    int64_t max_bytes_in_flight = kMaxBytesInFlight, Writers writers = {});
  // Waits; a failure that nobody polled is logged as a warning.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Where the directory was removed, renamed or replaced since the start, the save fails and nothing is made in its place.
  // Waits for the save before; then reads the groups here, in order, while the writer thread writes those that were read, and
  // returns when all were read. Before each it waits for room: the data that were read and are not yet written never exceed
  // max(max_bytes_in_flight, bytes of the largest group). So what fits is written in the background alone. When the writer
  // fails meanwhile, no further group is read. A bug of ours in the writer is no failure: it is thrown by whichever of
  // save_async, wait and poll_failure is called next, and by the destructor where none was. What a `read` throws leaves here
  // after everything written for this save is removed. It is no SaveFailure, and the manager goes on as before.
  void save_async(Snapshot snapshot);
  void wait();
  // The oldest failure not returned yet. Does not wait.
  std::optional<SaveFailure> poll_failure();
  // Failures so far, polled or not: the program's exit code depends on it.
  int64_t failures() const;
  // The step of the last save that was committed by this manager.
  std::optional<int64_t> last_committed() const;

 private:
  struct Save;

  // On the caller's thread.
  void begin(Snapshot& snapshot);
  bool wait_for_room(int64_t bytes);
  void hand_over(std::vector<HostTensor> group);
  void end_reading(bool given_up);
  // On the writer's.
  void run();
  void save();
  bool write(CheckpointWriter& writer);
  bool write_groups(CheckpointWriter& writer);
  bool next_group(std::vector<HostTensor>& group);
  void fail(const std::string& message, bool committed);
  void stop_for_bug(std::exception_ptr bug);
  void give_up_reading();
  void finish_save();
  void expect_directory() const;
  void rethrow_bug();
  void remove_old(CheckpointWriter& writer);

  const std::string directory_;
  const KeepRules rules_;
  store::FileSystem& files_;
  const int64_t max_bytes_in_flight_;
  const Writers writers_;
  std::unique_ptr<store::Directory> held_;  // the directory that saves began in; null in a bucket
  int64_t saves_ = 0;                       // begun; of the writer thread alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Save> save_;  // the one under way
  bool stopping_ = false;
  std::vector<SaveFailure> unpolled_;
  std::exception_ptr bug_;  // what the writer threw and nobody was told of yet
  int64_t failures_ = 0;
  std::optional<int64_t> last_committed_;
  std::thread writer_;  // last: it uses what is above
};

// One save from start to commit, without threads; one group is in memory at a time. Returns the checkpoint's path. Throws
// store::IoError, or what a `read` throws, after removing what it had written.
std::string write_checkpoint(store::FileSystem& files, const std::string& directory, const Snapshot& snapshot);

// Removes checkpoints that the rules don't keep, where `newest` is known to be whole. Damaged ones, and those that say that
// they are of another run than `run`, are left for a person to look at.
// `best`: steps of those that stay besides.
void apply_keep_rules(store::FileSystem& files, const std::string& directory, const KeepRules& rules, int64_t newest,
                      const std::string& run = {}, const std::vector<int64_t>& best = {});

// Of another host than the first's: removes the checkpoints before `newest` but those that are `kept`, and those of another run.
void keep_only(store::FileSystem& files, const std::string& directory, const std::vector<int64_t>& kept, int64_t newest,
               const std::string& run);

// Removes `step_*.tmp-<pid>` whose process is dead or this one. Errors are ignored: it is tried again next time.
void sweep_leftovers(store::FileSystem& files, const std::string& directory);

}  // namespace tessera::checkpoint
