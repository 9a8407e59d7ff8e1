#include "train/loop/training_step.h"

#include <algorithm>
#include <utility>

#include "base/system/spans.h"
#include "train/process/loop_phases.h"

namespace tessera::train {

namespace {

bool makes_images_up(const data::DataSet& set) { return set.source->fill_pixels(0, {}); }

}  // namespace

TrainingStep::TrainingStep(Run& run, ReadyProgram program, StepState& state, StopVotes& votes, RunPictures& pictures)
    : run_(run),
      program_(std::move(program)),
      made_up_(std::ranges::all_of(run.recipe.data.sets, makes_images_up)),
      state_(state),
      votes_(votes),
      pictures_(pictures) {}

DispatchedStep TrainingStep::dispatch(DeviceBatch& batch) {
  const PhaseSpan span(kDispatch);
  state::DeviceArrays* const votes = votes_.arguments();
  pictures_.before_step(batch, state_, votes);
  pjrt::Buffer metrics = state_.step(*program_.executable, state_.arguments(batch, program_.numbers, votes));
  ++run_.progress.step;
  run_.progress.examples_seen += run_.recipe.batch;
  DispatchedStep dispatched{
      .step = run_.progress.step, .metrics = std::move(metrics), .images_alike = !made_up_ && batch.images_alike()};
  dispatched.watch();
  dispatched.is_ready();  // at once where the call waits for the work: on several virtual devices
  return dispatched;
}

}  // namespace tessera::train
