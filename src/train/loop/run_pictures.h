#pragma once
// What sinks get of a run besides its measurements: the model's graph, the first images as the model sees them, and histograms
// of parameters, updates and gradients. Where the recipe names no sinks, nothing is made of it but the file of the first images
// (train/workdir/first_batch.h).

#include <cstdint>
#include <future>
#include <optional>

#include "data/loader/loader.h"
#include "train/loop/compiling.h"
#include "train/run/run.h"
#include "train/step/compile.h"
#include "train/step/device_batch.h"
#include "train/step/program.h"
#include "train/step/step_state.h"

namespace tessera::train {

class RunPictures {
 public:
  // `run` is borrowed.
  explicit RunPictures(Run& run) : run_(run) {}

  // Starts to compile the programs that it needs, with the training step's options.
  void start(Compiler& compiler, const ProgramOptions& options);
  void show_model() const;
  // The host's rows of the first batch, where the device leaves them as they are.
  void show_images(const data::Batch& rows) const;
  // Whether before_step() has work of its own before `step`. No step may be at work then: its time would be taken for that.
  bool comes_before(int64_t step) const;
  // Before the next step, on its batch: the first images where the device mixes or erases them, and histograms where they are due,
  // for which the step is computed twice.
  void before_step(DeviceBatch& batch, StepState& state, state::DeviceArrays* votes);
  // Once the metrics of `step` are read.
  void after_step(int64_t step);

 private:
  bool shows_images() const { return run_.recipe.monitor.images > 0 && run_.progress.step == 0; }
  bool has_histograms() const { return run_.has_sinks && run_.recipe.histograms_every > 0; }
  bool counts_histograms(int64_t step) const;
  void augment_first_images(DeviceBatch& batch, state::DeviceArrays* votes);
  void count_histograms(DeviceBatch& batch, StepState& state, state::DeviceArrays* votes);

  // Rows of the histogram program, on the devices.
  struct Counted {
    int64_t step = 0;
    pjrt::Buffer rows;
  };
  Run& run_;
  std::future<Compiled> augmented_future_, histogram_future_;
  std::optional<ReadyProgram> histograms_;
  std::optional<Counted> counted_;
};

}  // namespace tessera::train
