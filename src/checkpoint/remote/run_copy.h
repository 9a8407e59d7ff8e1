#pragma once
// A run whose workdir is in a bucket. The run works in a local copy, below the cache directory; what it commits is copied to the
// bucket while it goes on. A start on another machine brings the newest checkpoint and the run's other files back.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/remote/claim.h"
#include "checkpoint/remote/run_objects.h"

namespace tessera::remote {

// A local copy, made where it is missing, of the newest whole checkpoint below `url`, or of that of step K where `url` ends with
// @K: for programs that use a run's weights. Gives it as WORKDIR@STEP. Copies stay in the cache directory. Throws a usage or data
// Error where there is none.
std::string fetch_run(const std::string& url);

// What a checkpoint says in its state.json of older ones.
struct KeptCheckpoints {
  std::vector<int64_t> best;  // steps of those that stay because they are the best
  bool others = false;        // whether the run keeps others for good
};
// Throws a data Error that names `where`, the checkpoint.
using KeptOf = std::function<KeptCheckpoints(const std::string& state_json, const std::string& where)>;

class RunCopy {
 public:
  // Claims the run (checkpoint/remote/claim.h). Throws a usage Error where another process has it, a data Error where the
  // bucket refuses.
  RunCopy(const std::string& url, KeptOf kept_of, ClaimOptions options = {});
  // finish(), with a warning where it fails.
  ~RunCopy();
  RunCopy(const RunCopy&) = delete;
  RunCopy& operator=(const RunCopy&) = delete;

  const std::string& url() const { return url_; }
  // Once: makes the local copy as new as the bucket, which may take long, and begins to copy what is committed there. Without
  // checkpoints where they are left to the processes of the run, as leave_checkpoints() says. Throws a data Error.
  void bring_up_to_date(bool leaves_checkpoints);
  // The workdir for the run.
  const std::string& local() const { return local_; }
  // From now on the processes of the run write its checkpoints into the bucket themselves (checkpoint/joint_save.h). Copies
  // what is missing there, and removes the checkpoints here, which newer ones there replace. Throws a data Error.
  void leave_checkpoints();
  // Throws a data Error where the run in the bucket is another one's by now.
  void expect_held() const { claim_.expect_held(); }
  // Before the COMMIT of such a checkpoint: copies the run's other files. Throws a data Error, also where the run is another
  // one's by now.
  void copy_before_commit();
  // Copies what is missing in the bucket and waits for it. False where that fails, after an error message; the local copy has
  // everything, and the next start copies it.
  bool finish();

 private:
  struct FileState {
    int64_t size = 0, changed = 0;  // bytes, nanoseconds
    bool operator==(const FileState&) const = default;
  };

  void put_local_aside();
  bool bring_checkpoint(int64_t step);
  void bring_kept(const RunObjects& there, int64_t step);
  void find_removed(const RunObjects& there, const std::vector<int64_t>& here);
  void copy_in_background();
  void copy_all();
  bool is_own(const std::string& name) const;
  void copy_files(bool marks);
  void copy_file(const std::string& name);
  void copy_checkpoint(int64_t step);
  bool write_checkpoint(int64_t step, const std::string& commit);
  void remove_old(const std::vector<int64_t>& local_steps);
  std::vector<int64_t> local_steps() const;
  std::optional<std::string> local_commit(int64_t step) const;
  bool waits_for_copy(int64_t step) const;

  const std::string url_, local_;
  const KeptOf kept_of_;
  Claim claim_;
  int64_t first_ = 0;                              // older ones here are not copied: the bucket was further
  std::map<std::string, FileState> copied_files_;  // as they were when they were copied
  std::map<int64_t, std::string> copied_;          // checkpoints that are in the bucket and were here, with COMMIT here
  std::set<int64_t> unfinished_;                   // those of the bucket that a writer that is gone left without COMMIT
  std::set<int64_t> damaged_;                      // those of the bucket whose bytes are not those of their COMMIT
  std::set<int64_t> passed_;                       // those of the bucket that are not here, and that newer ones replace

  std::mutex copying_now_;             // what is above changes under it, once the thread below runs
  bool checkpoints_are_left_ = false;  // to the processes of the run
  bool is_first_to_write_ = true;      // nothing of this start was written to the bucket yet

  std::mutex mutex_;
  std::condition_variable woken_;
  bool ending_ = false;
  std::string failure_;  // the last one, told once
  std::thread copying_;
};

}  // namespace tessera::remote
