#pragma once
// The batches of a run on their way from the loader to the devices. Waiting for one never keeps a run from ending or saving: that
// waits for no disk and no decoder.

#include <memory>
#include <optional>
#include <string>

#include "data/loader/loader.h"
#include "train/loop/run_pictures.h"
#include "train/loop/training_step.h"
#include "train/run/run.h"
#include "train/step/device_batch.h"

namespace tessera::train {

class LoopInput {
 public:
  // Starts to read at the batch of the run's next step. Both are borrowed.
  LoopInput(Run& run, const RunPictures& pictures);

  // The next batch; nothing where the end of the run or a checkpoint was asked for before it came. `at_work`: the step that the
  // devices may be at, during which waiting costs nothing; null where there is none.
  std::optional<DeviceBatch> next(DispatchedStep* at_work);
  // What a batch that did not come for so long waits for, in words. From any thread.
  std::string what_hangs(double seconds) const { return loader_.what_hangs(seconds); }

 private:
  Run& run_;
  const RunPictures& pictures_;
  data::TrainLoader loader_;
};

}  // namespace tessera::train
