#pragma once
// One step of a run on its devices.

#include <chrono>
#include <cstdint>
#include <optional>

#include "pjrt/buffer.h"
#include "train/loop/compiling.h"
#include "train/loop/run_pictures.h"
#include "train/loop/stop_votes.h"
#include "train/run/run.h"
#include "train/step/device_batch.h"
#include "train/step/step_state.h"

namespace tessera::train {

// A step that was given to the devices, and whose measurements were not read yet.
struct DispatchedStep {
  int64_t step = 0;
  pjrt::Buffer metrics;
  std::optional<std::chrono::steady_clock::time_point> ready;  // when the devices were through, where somebody looked

  // Whether the devices are through, and notes when.
  bool is_ready() {
    if (!ready && metrics.ready()) ready = std::chrono::steady_clock::now();
    return ready.has_value();
  }
};

// Everything is borrowed.
class TrainingStep {
 public:
  TrainingStep(Run& run, ReadyProgram program, StepState& state, StopVotes& votes, RunPictures& pictures);
  // The next step, on this batch.
  DispatchedStep dispatch(DeviceBatch& batch);

 private:
  Run& run_;
  ReadyProgram program_;
  StepState& state_;
  StopVotes& votes_;
  RunPictures& pictures_;
};

}  // namespace tessera::train
