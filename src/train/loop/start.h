#pragma once
// What a run starts from: its own newest checkpoint, another run's (`resume`), weights (`model_init`), or nothing.

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "recipe/run_identity.h"
#include "train/run/run.h"
#include "train/step/compile.h"
#include "train/step/step_state.h"

namespace tessera::train {

class StartingPoint {
 public:
  // Finds it, and sets run.progress. Only the leader sees checkpoints, unless each process reads its part: put() sends their
  // arrays to the others. `evaluates`: whether
  // an evaluator is due before the first step.
  StartingPoint(Run& run, bool evaluates);

  // A checkpoint of this run.
  bool resumed() const { return resumed_; }
  // Whether there is a checkpoint, of this run or another; otherwise the state is drawn.
  bool has_state() const { return resumed_ || began_at_; }
  // What the console says of the run before it starts.
  void announce() const;
  // Where the run goes back to an earlier step (TrainOptions::from_step): later checkpoints get other names.
  void put_later_aside() const;
  // Lists the training images in the run's directory, so that a later start can say which ones changed.
  void keep_data_names() const;
  // Reads the weights of model_init, so that those that don't fit are known before anything is compiled.
  void load_weights();
  // The state on the devices. `init_program` is needed where there is no checkpoint. `parameters`: with the table of all
  // parameters.
  void put(StepState& state, std::future<Compiled>& init_program, bool parameters);

 private:
  // Where the processes look together for a checkpoint of the run. All functions are called by all alike.
  struct Checkpoints {
    std::string where;
    std::function<std::optional<int64_t>(int64_t before)> newest;    // the newest step before that one; asked of the leader
    std::function<checkpoint::LoadedCheckpoint(int64_t step)> load;  // what this process needs of it
    std::function<void(int64_t step)> pass_over = {};                // of one that is damaged; null: nothing
  };
  void find_in_bucket();
  void find_on_hosts();
  void find_newest(const Checkpoints& there);
  std::string load(const Checkpoints& there, int64_t step);
  std::string tell_all(int64_t tries, const std::string& problem);
  void open_leaders_checkpoint(bool own);
  void take_up(const std::string& state);
  void tell_of_data() const;
  void put_checkpoint(StepState& state);
  void draw(StepState& state, std::future<Compiled>& init_program, bool parameters);

  Run& run_;
  bool resumed_ = false;
  recipe::DataChanges data_changes_;                        // since the checkpoint; of the leader
  std::optional<int64_t> began_at_;                         // the step of another run
  std::optional<checkpoint::LoadedCheckpoint> checkpoint_;  // of the leader, until it is on the devices
  state::HostArrays weights_;                               // of model_init, likewise; empty bytes where the drawn value stays
};

}  // namespace tessera::train
