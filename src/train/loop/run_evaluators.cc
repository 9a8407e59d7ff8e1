#include "train/loop/run_evaluators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "host/register.h"
#include "train/evaluate/evaluation_pictures.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/step/program_options.h"
#include "train/step/trace.h"

namespace tessera::train {

std::string cause_of(const pjrt::CompileReport& report) { return report.cached ? "cached" : report.reason; }

void RunEvaluators::start(std::shared_ptr<pjrt::Client> client, const pjrt::ExecutableCache& cache) {
  client_ = std::move(client);
  const host::Kernels kernels = host::register_kernels(*client_);
  std::map<std::string, std::shared_future<Compiled>> by_text;
  for (const recipe::EvalPlan& plan : recipe_.evals) {
    compiled_.emplace_back();
    for (size_t set = 0; set < plan.sets.size(); ++set) {
      const recipe::EvalSet& of = plan.sets[set];
      Program program = eval_program(*recipe_.model, *plan.evaluator, set, layout_, eval_options(recipe_, of, kernels));
      const std::string text = program.text;
      if (!by_text.contains(text)) {
        auto arguments = arguments_of(layout_, layout_.params, image_batch(*recipe_.model, of.rows()));
        by_text[text] = compile_async(client_, std::move(program), cache, std::move(arguments)).share();
      }
      compiled_.back().push_back(by_text[text]);
    }
  }
  announced_.assign(recipe_.evals.size(), false);
}

bool RunEvaluators::due(int64_t step) const {
  return std::ranges::any_of(recipe_.evals,
                             [&](const recipe::EvalPlan& plan) { return recipe::due(plan, step, recipe_.run, recipe_.total); });
}

// Nothing when a signal came first.
std::optional<Executables> RunEvaluators::programs(size_t evaluator) {
  Executables programs;
  for (const std::shared_future<Compiled>& future : compiled_[evaluator]) {
    const std::string name = "evaluate " + recipe_.evals[evaluator].name;
    if (!wait_unless_stopped(future, name, reporter_, stop_)) return std::nullopt;
    const Compiled& compiled = future.get();
    if (!announced_[evaluator]) {
      reporter_.console().phase("compile", name, compiled.report.seconds, cause_of(compiled.report));
      announced_[evaluator] = true;
    }
    programs.emplace_back(&compiled.executable, [](const pjrt::Executable*) {});
  }
  return programs;
}

std::optional<NamedScores> RunEvaluators::run(state::DeviceArrays& state, state::Progress& progress, bool at_end) {
  NamedScores scores;
  for (size_t e = 0; e < recipe_.evals.size(); ++e) {
    const recipe::EvalPlan& plan = recipe_.evals[e];
    const bool is_due = recipe::due(plan, progress.step, recipe_.run, recipe_.total);
    if (at_end ? is_due || !plan.options.at_end : !is_due) continue;
    const std::optional<Executables> compiled = programs(e);
    if (!compiled) return std::nullopt;
    reporter_.console().busy(fmt::format("evaluate  {} …", plan.name));
    const EvaluationRunner runner(client_, *compiled, layout_, plan, processes_);
    if (!run_one(runner, plan, plan.name, progress.step, state, 0, scores)) return std::nullopt;
    if (layout_.averages == 0) continue;
    const std::string averaged = recipe::averaged_name(plan.name);
    if (!run_one(runner, plan, averaged, progress.step, state, layout_.average_index(), scores)) return std::nullopt;
  }
  tell(scores, progress);
  return scores;
}

// With the weights at entry `first` of the state. False when a signal came in between.
bool RunEvaluators::run_one(const EvaluationRunner& runner, const recipe::EvalPlan& plan, const std::string& name, int64_t step,
                            state::DeviceArrays& state, size_t first, NamedScores& scores) {
  const Reporter::Timed timed(reporter_, &state::RunTimes::evaluation, "eval/" + name);
  const auto result = runner.run(
      state, [this] { return stop_.requested(); }, first);
  if (!result) return false;
  scores.emplace_back(name, result->scores);
  try {
    workdir_.expect_in_place();
    write_files(plan, *result, workdir_.evaluation(name, step));
    const std::string last = workdir_.last_evaluation(name);
    store::local_files().make_directories(store::parent_path(last));
    EvaluationSummary summary = summary_of(plan, *result, name, step);
    store::write_atomic(store::local_files(), last, to_json(summary));
    show(plan, *result, std::move(summary));
  } catch (const Error& error) {
    log_warning(error.message());
  } catch (const std::system_error& error) {
    log_warning(fmt::format("no pictures of `{}`: the system has no thread for them: {}", name, error.code().message()));
  }
  return true;
}

// On a thread of its own, which is left to itself where a signal comes while it waits for a file.
void RunEvaluators::show(const recipe::EvalPlan& plan, const Evaluation& evaluation, EvaluationSummary summary) const {
  monitor::Sinks& sinks = reporter_.sinks();
  if (sinks.empty()) return;
  const int64_t step = summary.step;
  EvaluationView view{plan.sets[0].data, std::move(summary), recipe_.monitor.worst};
  if (step == recipe_.total) take_features(evaluation, recipe_.monitor.projector, view);
  std::packaged_task<std::vector<monitor::RecordContent>()> task(
      [view = std::move(view)] { return evaluation_pictures(view); });
  auto pictures = task.get_future();
  std::thread(std::move(task)).detach();
  while (pictures.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (stop_.requested()) return;
  }
  for (monitor::RecordContent& content : pictures.get()) sinks.put(step, std::move(content));
}

void RunEvaluators::tell(const NamedScores& scores, state::Progress& progress) {
  for (const auto& [name, s] : scores) {
    const auto best = progress.best.find(name);
    reporter_.evaluated(name, progress.step, s, best == progress.best.end() ? std::nullopt : std::optional(best->second));
    const Score& first = s.values.front();
    if (best == progress.best.end() || first.better_than(best->second)) progress.best[name] = first.value;
  }
}

}  // namespace tessera::train
