#pragma once
// What a run starts from: its own newest checkpoint, another run's (`resume`), weights (`model_init`), or nothing.

#include <cstdint>
#include <future>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "train/run/run.h"
#include "train/step/compile.h"
#include "train/step/step_state.h"

namespace tessera::train {

class StartingPoint {
 public:
  // Finds it, and sets run.progress. Only the leader sees checkpoints: put() sends their arrays to the others. `evaluates`: whether
  // an evaluator is due before the first step.
  StartingPoint(Run& run, bool evaluates);

  // A checkpoint of this run.
  bool resumed() const { return resumed_; }
  // Whether there is a checkpoint, of this run or another; otherwise the state is drawn.
  bool has_state() const { return resumed_ || began_at_; }
  // What the console says of the run before it starts.
  void announce() const;
  // Reads the weights of model_init, so that those that don't fit are known before anything is compiled.
  void load_weights();
  // The state on the devices. `init_program` is needed where there is no checkpoint. `parameters`: with the table of all
  // parameters.
  void put(StepState& state, std::future<Compiled>& init_program, bool parameters);

 private:
  void take_up(const std::string& state);
  void put_checkpoint(StepState& state);
  void draw(StepState& state, std::future<Compiled>& init_program, bool parameters);

  Run& run_;
  bool resumed_ = false;
  std::optional<int64_t> began_at_;                         // the step of another run
  std::optional<checkpoint::LoadedCheckpoint> checkpoint_;  // of the leader, until it is on the devices
  state::HostArrays weights_;                               // of model_init, likewise; empty bytes where the drawn value stays
};

}  // namespace tessera::train
