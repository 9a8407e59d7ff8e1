#pragma once
// A run while it is open: its recipe, its directory, the devices and processes that train it, and where it stands. The parts of
// training (loop/) borrow it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system/temporary_directory.h"
#include "config/section.h"
#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "recipe/recipe.h"
#include "state/progress.h"
#include "state/state.h"
#include "store/local/lock.h"
#include "train/control/control.h"
#include "train/process/figure_exchange.h"
#include "train/process/processes.h"
#include "train/process/stop_signal.h"
#include "train/reporting/profiles.h"
#include "train/reporting/reporter.h"
#include "train/run/options.h"
#include "train/workdir/run_record.h"
#include "train/workdir/workdir.h"

namespace tessera::train {

// How long the processes wait until the leader has copied a run from or to its bucket, and until each has fetched its part of a
// checkpoint. That one of them is gone shows before.
inline constexpr std::chrono::hours kFetchPatience{2};

struct Run {
  // Reads the recipe and takes the directory. All processes have to agree about it. The client starts beside that.
  Run(config::Section section, const TrainOptions& options);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Waits for the client, and says to whom it matters which one it is.
  void connect();
  // From now on the processes tell the leader of themselves, beside the training; it keeps that in hosts.json.
  void share_figures();
  // The end of all processes, once all have come to it.
  void leave();

  // Whether nothing is left to do: the last step is done, or early_stop ended the run before it.
  bool at_end() const;
  // Whether this start has done what --until asks for: the run may have steps left.
  bool at_pause() const { return !progress.owed && until > 0 && progress.step >= until; }
  // The last step of this start, unless something ends it before.
  int64_t last_step() const { return until > 0 ? std::min(until, recipe.total) : recipe.total; }
  // Whether a checkpoint was asked for, of this process or, where all save, of any: then all know of it alike.
  bool save_wanted() const { return saves_jointly ? save_agreed : control.save_wanted(); }
  // Why early_stop ended the run before its last step; nothing where it did not.
  std::optional<std::string> ended_early() const;

  // Where the processes save into directories of several hosts, below `home` on each.
  bool on_several_hosts() const;
  // The first process that has this one's `home`, and whether it is this one.
  int64_t directory() const { return directory_of.empty() ? 0 : directory_of[static_cast<size_t>(processes.index())]; }
  bool leads_directory() const { return directory() == processes.index(); }
  // In `home`, also where it is in `bucket`.
  std::string checkpoint_path(int64_t step) const;
  bool has_checkpoint(int64_t step) const;

  // In the order in which they come to be.
  StopSignal stop;
  std::future<std::shared_ptr<pjrt::Client>> opening;  // `client`, until somebody waits for it
  std::shared_ptr<pjrt::Client> client;                // null before connect(), unless the recipe had to wait for it
  const pjrt::ExecutableCache cache;
  Processes processes;
  bool has_sinks = false;  // of the leader: what is computed for them is computed by all
  recipe::Recipe recipe;   // of a process that does not lead: without sinks
  const state::StateLayout layout;
  const bool saves_jointly;  // no process has all of the state: each writes its part of a checkpoint, and all read it
  std::optional<TemporaryDirectory> own_directory;  // of a process that does not lead, for what it does not keep
  remote::RunCopy* const copy;                      // of the leader, where `home` is its copy of one in a bucket; else null
  const std::string bucket;  // its address there, where `saves_jointly`; empty: `home` has the checkpoints
  const std::string home;    // the run's directory, which the leader chooses
  Workdir workdir;           // that directory; of a process that does not lead, its own
  // Where the processes save jointly on disks: of each the first one with the same directory (directory_of_each()). Else empty.
  const std::vector<int64_t> directory_of;
  const std::optional<store::DirectoryLock> host_lock;  // on `home`, of who leads it on another host
  const state::RunDescription description;
  std::string name;                        // whose the checkpoints are; as those say that the run goes on from
  const int64_t until;                     // the step after which this start ends; 0: none
  const std::optional<int64_t> from_step;  // of the checkpoint that this start goes back to; nothing: the newest
  RunRecord record;
  Reporter reporter;
  Profiles profiles;
  RunControl control;
  bool save_agreed = false;                 // by the votes of a step (train/loop/stop_votes.h), until it is saved
  state::Progress progress;                 // `metrics` are those of `progress.step`, once they are read
  std::unique_ptr<FigureExchange> figures;  // null where this process is alone

 private:
  recipe::Recipe read_recipe(config::Section section, const DeviceOptions& device);
  int64_t device_count(const DeviceOptions& device);
  std::string choose_home(const TrainOptions& options);
  bool splits_state() const;
  std::string bring_leaders_copy();
  std::vector<int64_t> find_directories(const TrainOptions& options);
  std::string hosts_file() const;
  void remove_hosts() const;
  void agree();
  void open_log(monitor::LogFile& log) const;
};

}  // namespace tessera::train
