#pragma once
// What follows a step: its measurements are read and told; then evaluations, the line of metrics.jsonl and the checkpoint.

#include <string>

#include "state/device_arrays.h"
#include "train/loop/run_evaluators.h"
#include "train/loop/run_pictures.h"
#include "train/loop/saver.h"
#include "train/loop/stop_votes.h"
#include "train/loop/training_step.h"
#include "train/run/run.h"
#include "train/step/step_state.h"

namespace tessera::train {

class AfterStep {
 public:
  // All of it is borrowed.
  AfterStep(Run& run, StepState& state, RunEvaluators& evaluators, Saver& saver, StopVotes& votes, RunPictures& pictures)
      : run_(run), state_(state), evaluators_(evaluators), saver_(saver), votes_(votes), pictures_(pictures) {}

  // Waits for a step's measurements, tells them, and writes their line unless finish() will. Throws Exit::kDiverged where they are
  // not finite and no guard skipped the update, or where it skipped too many. `alone`: other processes of the run read them later
  // than this one, while the next step is worked on.
  void read_metrics(const DispatchedStep& step, bool alone = false);
  // Evaluations, the metrics line and the checkpoint of the step at hand, whose metrics are read. False where it saved because the
  // end was asked for; what is asked later is for the next step.
  [[nodiscard]] bool finish();

  // The last evaluations of this start.
  const NamedScores& scores() const { return scores_; }

 private:
  [[noreturn]] void diverged(const std::string& what);
  void skip(int64_t step, const state::StepMetrics& metrics);
  std::optional<NamedScores> evaluate();
  void follow_plateau(const NamedScores& scores);

  Run& run_;
  StepState& state_;
  RunEvaluators& evaluators_;
  Saver& saver_;
  StopVotes& votes_;
  RunPictures& pictures_;
  NamedScores scores_;
};

}  // namespace tessera::train
