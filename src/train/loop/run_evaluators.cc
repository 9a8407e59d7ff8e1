#include "train/loop/run_evaluators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/file_calls.h"
#include "train/evaluate/evaluation_pictures.h"
#include "train/evaluate/evaluation_summary.h"
#include "train/loop/compiling.h"
#include "train/step/program_options.h"
#include "train/step/step.h"
#include "train/step/trace.h"

namespace tessera::train {

void RunEvaluators::start(Compiler& compiler, const Hardware& hardware) {
  const recipe::Recipe& recipe = run_.recipe;
  std::map<std::string, std::shared_future<Compiled>> by_text;
  for (const recipe::EvalPlan& plan : recipe.evals) {
    compiled_.emplace_back();
    for (size_t set = 0; set < plan.sets.size(); ++set) {
      const recipe::EvalSet& of = plan.sets[set];
      Program program = eval_program(*recipe.model, *plan.evaluator, set, run_.layout, eval_options(recipe, of, hardware));
      const std::string text = program.prepare + program.text;
      if (!by_text.contains(text)) {
        auto arguments =
            arguments_of(run_.layout, run_.layout.params, image_batch(*recipe.model, of.program_rows(), of.image_size()));
        by_text[text] = compiler.start(std::move(program), run_.cache, std::move(arguments)).share();
      }
      compiled_.back().push_back(by_text[text]);
    }
  }
  announced_.assign(recipe.evals.size(), false);
}

bool RunEvaluators::due(int64_t step) const {
  const recipe::Recipe& recipe = run_.recipe;
  return std::ranges::any_of(recipe.evals,
                             [&](const recipe::EvalPlan& plan) { return recipe::due(plan, step, recipe.run, recipe.total); });
}

// Nothing when a signal came first.
std::optional<EvalPrograms> RunEvaluators::programs(size_t evaluator) {
  EvalPrograms programs;
  for (const std::shared_future<Compiled>& future : compiled_[evaluator]) {
    const std::string name = "evaluate " + run_.recipe.evals[evaluator].name;
    if (!wait_for_program(run_, future, name)) return std::nullopt;
    const Compiled& compiled = future.get();
    if (!announced_[evaluator]) {
      tell_compiled(run_, name, compiled.report);
      announced_[evaluator] = true;
    }
    programs.emplace_back(&compiled, [](const Compiled*) {});
  }
  return programs;
}

std::optional<NamedScores> RunEvaluators::run(state::DeviceArrays& state, bool at_end) {
  const recipe::Recipe& recipe = run_.recipe;
  NamedScores scores;
  for (size_t e = 0; e < recipe.evals.size(); ++e) {
    const recipe::EvalPlan& plan = recipe.evals[e];
    const bool is_due = recipe::due(plan, run_.progress.step, recipe.run, recipe.total);
    if (at_end ? is_due || !plan.options.at_end : !is_due) continue;
    const std::optional<EvalPrograms> compiled = programs(e);
    if (!compiled) return std::nullopt;
    run_.reporter.console().busy(fmt::format("evaluate  {} …", plan.name));
    const EvaluationRunner runner(run_.client, *compiled, run_.layout, plan, run_.processes);
    if (!run_one(runner, plan, plan.name, state, 0, scores)) return std::nullopt;
    if (run_.layout.averages == 0) continue;
    const std::string averaged = recipe::averaged_name(plan.name);
    if (!run_one(runner, plan, averaged, state, run_.layout.average_index(), scores)) return std::nullopt;
  }
  take_leaders(scores);
  tell(scores);
  return scores;
}

// All processes do the same with scores only where those are the same to the last bit, and mathematical functions of the system
// round otherwise on another host's processors.
void RunEvaluators::take_leaders(NamedScores& scores) const {
  std::vector<double> values;
  for (const auto& [name, s] : scores) {
    for (const Score& score : s.values) values.push_back(score.value);
  }
  if (values.empty()) return;
  run_.processes.copy_from_leader(std::as_writable_bytes(std::span(values)));
  auto next = values.begin();
  for (auto& [name, s] : scores) {
    for (Score& score : s.values) score.value = *next++;
  }
}

// With the weights at entry `first` of the state. False when a signal came in between.
bool RunEvaluators::run_one(const EvaluationRunner& runner, const recipe::EvalPlan& plan, const std::string& name,
                            state::DeviceArrays& state, size_t first, NamedScores& scores) {
  const Reporter::Timed timed(run_.reporter, &state::RunTimes::evaluation, "eval/" + name);
  const auto result = runner.run(
      state, [this] { return run_.stop.requested(); }, first);
  if (!result) return false;
  scores.emplace_back(name, result->scores);
  try {
    run_.workdir.expect_in_place();
    write_files(plan, *result, run_.workdir.evaluation(name, run_.progress.step));
    const std::string last = run_.workdir.last_evaluation(name);
    store::local_files().make_directories(store::parent_path(last));
    EvaluationSummary summary = summary_of(plan, *result, name, run_.progress.step);
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
  monitor::Sinks& sinks = run_.reporter.sinks();
  if (sinks.empty()) return;
  const int64_t step = summary.step;
  EvaluationView view{plan.sets[0].data, std::move(summary), run_.recipe.monitor.worst};
  if (step == run_.recipe.total) take_features(evaluation, run_.recipe.monitor.projector, view);
  std::packaged_task<std::vector<monitor::RecordContent>()> task([view = std::move(view)] {
    leave_out_file_calls();
    return evaluation_pictures(view);
  });
  auto pictures = task.get_future();
  std::thread(std::move(task)).detach();
  while (pictures.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (run_.stop.requested()) return;
  }
  for (monitor::RecordContent& content : pictures.get()) sinks.put(step, std::move(content));
}

void RunEvaluators::tell(const NamedScores& scores) {
  state::Progress& progress = run_.progress;
  for (const auto& [name, s] : scores) {
    const auto best = progress.best.find(name);
    run_.reporter.evaluated(name, progress.step, s, best == progress.best.end() ? std::nullopt : std::optional(best->second));
    const Score& first = s.values.front();
    if (best == progress.best.end() || first.better_than(best->second)) progress.best[name] = first.value;
  }
}

}  // namespace tessera::train
