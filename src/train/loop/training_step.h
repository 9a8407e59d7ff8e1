#pragma once
// One step of a run on its devices.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "pjrt/buffer.h"
#include "train/loop/compiling.h"
#include "train/loop/run_pictures.h"
#include "train/loop/stop_votes.h"
#include "train/run/run.h"
#include "train/step/device_batch.h"
#include "train/step/step_state.h"

namespace tessera::train {

// When the devices were through with a step, as far as it is known. Of several times that are noted the first counts.
class StepEnd {
 public:
  using Clock = std::chrono::steady_clock;
  void note() {
    Clock::rep none = 0;
    at_.compare_exchange_strong(none, Clock::now().time_since_epoch().count());
  }
  std::optional<Clock::time_point> at() const {
    const Clock::rep at = at_;
    return at == 0 ? std::nullopt : std::optional(Clock::time_point(Clock::duration(at)));
  }

 private:
  std::atomic<Clock::rep> at_ = 0;
};

// A step that was given to the devices, and whose measurements were not read yet.
struct DispatchedStep {
  int64_t step = 0;
  pjrt::Buffer metrics;
  bool images_alike = false;                                   // of its batch, where they are not made up as fake(…) does
  std::shared_ptr<StepEnd> end = std::make_shared<StepEnd>();  // a thread of the plugin may note it

  // The plugin notes the end, if it can. Who only looks now and then may see the end of a step after that of the next.
  void watch() {
    metrics.ready_event().on_ready([end = end] { end->note(); });
  }
  // Whether the devices are through; notes when, where the plugin does not.
  bool is_ready() {
    if (!end->at() && metrics.ready()) end->note();
    return end->at().has_value();
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
  bool made_up_;  // the images
  StepState& state_;
  StopVotes& votes_;
  RunPictures& pictures_;
};

}  // namespace tessera::train
