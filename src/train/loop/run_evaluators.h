#pragma once
// The evaluators of a run: their programs, which compile beside the first training steps, and their scores.

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "state/device_arrays.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/reporting/reporter.h"
#include "train/run/run.h"
#include "train/step/compile.h"
#include "train/step/hardware.h"

namespace tessera::train {

class RunEvaluators {
 public:
  // `run` is borrowed.
  explicit RunEvaluators(Run& run) : run_(run) {}

  // Starts to compile their programs; evaluators with the same program share one.
  void start(Compiler& compiler, const Hardware& hardware);
  // Whether any is due after `step` steps.
  bool due(int64_t step) const;
  // The scores of those due after the steps that are done, told and written to evals/; nothing when a signal came in between.
  // progress.best is brought up to date. `at_end`: of those that are not due then and run at the end of a run instead.
  std::optional<NamedScores> run(state::DeviceArrays& state, bool at_end = false);

 private:
  std::optional<EvalPrograms> programs(size_t evaluator);
  bool run_one(const EvaluationRunner& runner, const recipe::EvalPlan& plan, const std::string& name,
               state::DeviceArrays& state, size_t first, NamedScores& scores);
  // What sinks get of an evaluation besides its scores; features at the end of the run alone.
  void show(const recipe::EvalPlan& plan, const Evaluation& evaluation, EvaluationSummary summary) const;
  void take_leaders(NamedScores& scores) const;
  void tell(const NamedScores& scores);

  Run& run_;
  std::vector<std::vector<std::shared_future<Compiled>>> compiled_;  // of each evaluator's sets
  std::vector<bool> announced_;
};

}  // namespace tessera::train
