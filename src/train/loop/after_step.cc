#include "train/loop/after_step.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/system/large_blocks.h"
#include "base/system/spans.h"
#include "base/text/text.h"
#include "train/guard/bad_batches.h"
#include "train/guard/skip_update.h"
#include "train/loop/divergence.h"
#include "train/process/loop_phases.h"
#include "train/run/early_stop.h"
#include "train/step/step.h"

namespace tessera::train {
namespace {

// What follows from the disk, as the leader sees it, where all processes save or none.
bool leader_says(Run& run, bool yes) {
  if (!run.saves_jointly) return yes;
  std::byte answer{yes};
  run.processes.copy_from_leader({&answer, 1});
  return answer != std::byte{0};
}

}  // namespace

void AfterStep::read_metrics(const DispatchedStep& dispatched, bool alone) {
  const int64_t step = dispatched.step;
  const recipe::Recipe& recipe = run_.recipe;
  const std::vector<float> values = [&] {
    const PhaseSpan span(kWaitForDevice);
    return dispatched.metrics.to_host<float>();
  }();
  const auto ready = dispatched.end->at().value_or(std::chrono::steady_clock::now());
  state::StepMetrics metrics;
  for (const std::string& name : metric_names(*recipe.objective, recipe.guard))
    metrics.push_back({name, values[metrics.size()]});
  const bool skipped = recipe.guard && measurement(metrics, guard_metric_names()[kSkipsInRow]) > 0;
  for (const auto& [name, value] : metrics) {
    // Processors give their nan a sign, which says nothing.
    const double shown = std::isnan(value) ? std::abs(value) : value;
    if (!std::isfinite(value) && !skipped) diverged(fmt::format("{} is {} at step {}", name, shown, step));
  }
  if (run_.processes.several()) {
    const float* sums = values.data() + metrics.size();
    alone ? votes_.keep(sums) : votes_.take(sums);
  }
  if (dispatched.images_alike) metrics.push_back({"images_alike", 1});
  const bool log_now = step == 1 || recipe::due(step, recipe.log_every, recipe.total);
  const auto memory = run_.client->memory(run_.client->own_devices().front());
  // Between two steps only the state is in use: what counts is the most there was.
  const auto most = memory ? std::optional(memory->peak_in_use.value_or(memory->in_use)) : std::nullopt;
  run_.reporter.step(step, metrics, ready, log_now, most);
  run_.progress.metrics = metrics;
  if (skipped) skip(step, metrics);
  pictures_.after_step(step);
  saver_.report();
  run_.profiles.settled(step, ready);
  // The line of the step at hand waits for its evaluations, and the last one for the last save: finish() writes it.
  const bool waits = step == run_.progress.step && (evaluators_.due(step) || step == recipe.total);
  if (!(log_now || skipped) || waits) return;
  const PhaseSpan span("write metrics");
  run_.reporter.write(step, metrics, {});
}

void AfterStep::diverged(const std::string& what) {
  saver_.wait();
  const auto from = saver_.to_go_on_from();
  const auto saved = saver_.last_saved();
  throw Error(
      Exit::kDiverged,
      fmt::format("the run diverged: {}{}", what, saved ? fmt::format("; the last checkpoint is of step {}", *saved) : ""),
      run_.workdir.path(),
      divergence_help(run_.recipe, run_.workdir.path(), from ? std::optional(run_.checkpoint_path(*from)) : std::nullopt));
}

// Keeps the batch of a step whose update was not made; after max_skips of them in a row the run ends.
void AfterStep::skip(int64_t step, const state::StepMetrics& metrics) {
  const Reporter::Pause pause(run_.reporter);
  const BadBatch bad{step, why_skipped(metrics), metrics};
  const auto in_row = std::llround(measurement(metrics, guard_metric_names()[kSkipsInRow]));
  const int64_t max_skips = run_.recipe.guard->max_skips;
  std::string kept;
  if (run_.processes.leads()) {
    try {
      kept = keep_bad_batch(run_.recipe, run_.workdir.path(), bad, [this] { return run_.stop.requested(); });
    } catch (const Error& error) {  // the run does not need it
      log_warning(fmt::format("the batch of step {} could not be kept: {}", step, error.message()));
    }
  }
  if (in_row >= max_skips) {
    diverged(fmt::format("{} skipped (guard.max_skips), the last because {} at step {}; {}",
                         in_row == 1 ? "1 update was" : fmt::format("{} updates in a row were", in_row), bad.why, step,
                         kept.empty() ? "the batch was not kept" : fmt::format("its batch is in {}", kept)));
  }
  log_warning(fmt::format("step {}: the update is skipped, because {} ({} in a row, of {} at most){}", step, bad.why, in_row,
                          max_skips - 1, kept.empty() ? "" : "; its batch is in " + kept));
}

bool AfterStep::finish() {
  const Reporter::Pause pause(run_.reporter);
  run_.profiles.interrupted();
  state::Progress& progress = run_.progress;
  const bool evaluates = evaluators_.due(progress.step);
  std::optional<NamedScores> scores;
  if (evaluates) {
    if (!run_.stop.requested()) scores = evaluate();
    if (!scores) {
      saver_.save(/*owed=*/true);
      return false;
    }
  }
  // Without evaluations it is the last line, or `every` of the evaluators was changed since the signal.
  const bool left_over = progress.owed || progress.step == run_.recipe.total;
  const bool logs = left_over && progress.metrics && recipe::due(progress.step, run_.recipe.log_every, run_.recipe.total);
  const auto write_line = [&] {
    if (evaluates || logs) run_.reporter.write(progress.step, progress.metrics, scores.value_or(NamedScores()));
  };
  progress.owed = false;
  const bool at_end = run_.at_end();
  if (!at_end) write_line();
  bool new_best = false;
  if (scores) {
    follow_plateau(*scores);
    new_best = leader_says(run_, saver_.best().take(*scores));
    scores_ = *scores;
  }
  const bool stopped = run_.stop.requested();
  const bool ends = stopped || at_end || run_.at_pause();
  if (ends) give_back_large_blocks();  // no step follows: so the state's copies don't add to its temporaries
  if (at_end) {
    saver_.save(/*owed=*/false, write_line);  // no later line would have its time
  } else if (ends || new_best || run_.save_wanted() || run_.recipe.saves_at(progress.step)) {
    saver_.save(/*owed=*/false);
  }
  return !stopped;
}

// The scores of the evaluators that are due; where those end the run, also of the evaluators that run at its end. Nothing when a
// signal came first: what was evaluated until then is dropped.
std::optional<NamedScores> AfterStep::evaluate() {
  state::Progress& progress = run_.progress;
  const recipe::Recipe& recipe = run_.recipe;
  std::optional<NamedScores> scores = evaluators_.run(state_.arrays());
  if (!scores || !recipe.early_stop) return scores;
  const auto state = after_scores(*recipe.early_stop, progress.early_stop, progress.step, *scores);
  const auto early = progress.step < recipe.total ? early_end(recipe.early_stop, state) : std::nullopt;
  if (early) {
    const auto more = evaluators_.run(state_.arrays(), /*at_end=*/true);
    if (!more) return std::nullopt;
    scores->insert(scores->end(), more->begin(), more->end());
    log_note(fmt::format("{}: the run ends at step {} of {}", *early, human_count(progress.step), human_count(recipe.total)));
  }
  progress.early_stop = state;
  return scores;
}

// The rate of the steps to come, where scores decide it.
void AfterStep::follow_plateau(const NamedScores& scores) {
  if (!run_.layout.lr_scale) return;
  const optim::PlateauOptions& plateau = *run_.recipe.optimizer->schedule().plateau();
  state::Progress& progress = run_.progress;
  const double before = progress.plateau.scale;
  for (const auto& [name, s] : scores) {
    if (!plateau.metric.starts_with(name + "/")) continue;
    const std::optional<double> score = s.find(plateau.metric.substr(name.size() + 1));
    if (score) progress.plateau = optim::after_score(plateau, progress.plateau, progress.step, *score);
  }
  if (progress.plateau.scale == before) return;
  const auto scale = static_cast<float>(progress.plateau.scale);
  state::put_entry(run_.layout, run_.layout.lr_scale_index(), store::copy_bytes(std::as_bytes(std::span(&scale, 1))),
                   *run_.client, state_.arrays());
  log_note(fmt::format("{} stopped getting better: the learning rate is now {:.3g} of the schedule's", plateau.metric,
                       progress.plateau.scale));
}

}  // namespace tessera::train
