#pragma once
// The evaluators of a run: their programs, which compile beside the first training steps, and their scores.

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/cache.h"
#include "pjrt/client.h"
#include "recipe/recipe.h"
#include "state/device_arrays.h"
#include "state/progress.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/process/processes.h"
#include "train/process/stop_signal.h"
#include "train/reporting/reporter.h"
#include "train/step/compile.h"
#include "train/workdir/workdir.h"

namespace tessera::train {

// False when a signal came first: the compilation is left to itself. The console says what is waited for.
template <class Future>
bool wait_unless_stopped(const Future& future, const std::string& name, Reporter& reporter, const StopSignal& stop) {
  reporter.console().busy(fmt::format("compile  {} …", name));
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (stop.requested()) return false;
  }
  return true;
}

// "cached", or why it was compiled.
std::string cause_of(const pjrt::CompileReport& report);

class RunEvaluators {
 public:
  // All of it is borrowed.
  RunEvaluators(const recipe::Recipe& recipe, const state::StateLayout& layout, const Workdir& workdir, Reporter& reporter,
                const StopSignal& stop, Processes& processes)
      : recipe_(recipe), layout_(layout), workdir_(workdir), reporter_(reporter), stop_(stop), processes_(processes) {}

  // Starts to compile their programs; evaluators with the same program share one.
  void start(std::shared_ptr<pjrt::Client> client, const pjrt::ExecutableCache& cache);
  // Whether any is due after `step` steps.
  bool due(int64_t step) const;
  // The scores of those due after progress.step steps, told and written to evals/; nothing when a signal came in between.
  // progress.best is brought up to date. `at_end`: of those that are not due then and run at the end of a run instead.
  std::optional<NamedScores> run(state::DeviceArrays& state, state::Progress& progress, bool at_end = false);

 private:
  std::optional<Executables> programs(size_t evaluator);
  bool run_one(const EvaluationRunner& runner, const recipe::EvalPlan& plan, const std::string& name, int64_t step,
               state::DeviceArrays& state, size_t first, NamedScores& scores);
  // What sinks get of an evaluation besides its scores; features at the end of the run alone.
  void show(const recipe::EvalPlan& plan, const Evaluation& evaluation, EvaluationSummary summary) const;
  void tell(const NamedScores& scores, state::Progress& progress);

  const recipe::Recipe& recipe_;
  const state::StateLayout& layout_;
  const Workdir& workdir_;
  Reporter& reporter_;
  const StopSignal& stop_;
  Processes& processes_;
  std::shared_ptr<pjrt::Client> client_;
  std::vector<std::vector<std::shared_future<Compiled>>> compiled_;  // of each evaluator's sets
  std::vector<bool> announced_;
};

}  // namespace tessera::train
