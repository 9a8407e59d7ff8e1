#pragma once
// A training run from recipe to final checkpoint, resumable anywhere.
//
// What a run promises:
//   - The line of a step in metrics.jsonl and its evaluations come before its checkpoint commits, and are made durable first. A
//     run killed at any moment and started again ends with the same bytes in weights and metrics (times aside) as one never
//     killed.
//   - A measurement that is not finite ends the run (Error with Exit::kDiverged naming the step) before anything of that step
//     is saved. With a guard the update of such a step is not made, and so many of them in a row end it. The
//     checkpoint that is the best by checkpoint.best stays besides the last ones.
//   - SIGTERM, SIGHUP, SIGXCPU and Ctrl-C end the run after the current step with a checkpoint, however long the next batch
//     takes to come. An evaluation under way is given up; the checkpoint says so, and it is done again when the run goes on.
//   - While it trains, other processes of the user may ask it for a checkpoint or its end through <workdir>/control.sock
//     (train/control/control_socket.h), also while it waits for a batch.
//   - A save that fails is a warning; the run goes on, and its exit code is kData. So it is where the workdir, its checkpoints
//     or its metrics were moved, removed or changed meanwhile; nothing is made in their place.
//   - A checkpoint of another run, and a new start over metrics whose checkpoints are gone, are refused.

#include <cstdint>
#include <string>

#include "base/error.h"
#include "config/section.h"
#include "train/reporting/reporter.h"
#include "train/run/options.h"

namespace tessera::train {

struct TrainResult {
  Exit exit = Exit::kDone;
  std::string stopped_by;        // the signal, or "a request"; empty where none came
  bool paused = false;           // as TrainOptions::until says, with steps left to do
  bool finished_before = false;  // there was nothing left to do
  int64_t step = 0, total = 0;
  bool classifier = true, captioner = false, evaluators = false;  // of the recipe
  std::string pp;                                                 // for images, where no evaluator says how they are prepared
  std::string workdir;
  std::string checkpoint;  // of `step`; empty when it could not be saved
  double seconds = 0;      // uptime of the whole run
  NamedScores scores;      // the last evaluations of this start
  std::string best;        // the checkpoint kept as the best, and by what; empty where there is none, or it is the last one
};

// Reads the recipe, opens or continues the workdir, and trains to the end or to a signal. Throws what fails before or during
// that.
TrainResult train(config::Section recipe, const TrainOptions& options);

}  // namespace tessera::train
