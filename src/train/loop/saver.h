#pragma once
// Saves the checkpoints of a run, removes those that don't stay, and answers whoever asked for one. Of several processes the leader
// alone saves, unless the state is split over them (Run::saves_jointly).

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "checkpoint/manager.h"
#include "state/device_arrays.h"
#include "train/loop/best_checkpoint.h"
#include "train/loop/save_time.h"
#include "train/run/run.h"

namespace tessera::train {

class Saver {
 public:
  // `time`: what the last save has (TrainOptions::save_timeout).
  Saver(Run& run, std::optional<std::chrono::seconds> time);

  // The run goes on from a checkpoint of its own.
  void resume();
  // Of a run that is finished, which may have been killed right after its last save: removes checkpoints that don't stay.
  void tidy() const;
  // The directory is this run's from now on. `state` is what is saved, and is borrowed.
  void open(const state::DeviceArrays& state);

  BestCheckpointKeeper& best() { return best_; }

  // The state of the step at hand, in the background. `owed`: its evaluations and its line of metrics.jsonl are still to come.
  // `line`: writes that line once the time that the save takes of training is known; the checkpoint is committed after it.
  void save(bool owed, const std::function<void()>& line = {});
  // Of a step that is finished. While the run waits for the next one, it may be asked to save again and again.
  void save_unless_saved();
  // Warns of saves that failed, and of those that are slow. Cheap. Where the run has `ended`, no later save makes up for one that
  // failed: then it is an error.
  void report(bool ended = false);
  // The other processes end: what waits for their parts of a checkpoint gives up.
  void stay_alone() { *alone_ = true; }
  // Until nothing is being saved any more.
  void wait();
  int64_t failures() const { return checkpoints_->failures(); }
  // The newest checkpoint that is there; nothing where there is none.
  std::optional<int64_t> last_saved() const;
  // The best one by checkpoint.best, else the newest.
  std::optional<int64_t> to_go_on_from();

 private:
  std::string checkpoints_directory() const;
  void start_save(bool owed, const std::shared_future<void>& line);
  checkpoint::KeepRules rules() const;
  bool may_be_there(int64_t step) const;
  bool has_saved(int64_t step) const;

  Run& run_;
  const std::shared_ptr<std::atomic<bool>> alone_ = std::make_shared<std::atomic<bool>>(false);
  checkpoint::Writers writers_;
  SaveTime time_;
  std::optional<checkpoint::CheckpointManager> checkpoints_;  // whose thread uses what is above
  BestCheckpointKeeper best_;
  const state::DeviceArrays* state_ = nullptr;
  std::optional<int64_t> resumed_from_;
};

}  // namespace tessera::train
