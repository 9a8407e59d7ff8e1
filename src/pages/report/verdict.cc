#include "pages/report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "config/duration.h"
#include "config/section.h"
#include "monitor/alerts.h"

namespace tessera::report {
namespace {

// A share of the step time spent waiting for input that is worth a remark, and one that is a trouble.
constexpr double kSomeWaiting = 0.05, kMuchWaiting = 0.15;
// A loss that ended so much above its lowest value has risen.
constexpr double kRisen = 1.05;
// Evaluations from which on a trend can be told.
constexpr int64_t kTrend = 4;
// What a score must gain, in standard errors of a share or as a part of a mean, to count as better.
constexpr double kErrors = 1, kPart = 0.01;
// A measured training loss is averaged over this part of the run.
constexpr double kSmoothing = 0.1;
// Norms of gradients that are so many times their median are spikes.
constexpr double kSpike = 20;
constexpr size_t kManyNorms = 20;

std::string steps(int64_t count) { return fmt::format("{} {}", human_count(count), count == 1 ? "step" : "steps"); }

int64_t last_step(const SavedRun& run) { return run.rows.empty() ? 0 : run.rows.back().step; }

// The step with which a run was stopped is saved, and may have no line.
int64_t reached_step(const SavedRun& run) {
  const auto save = run.facts && run.facts->state == "stopped" ? run.facts->last_save : std::nullopt;
  return std::max(last_step(run), save ? save->step : 0);
}

// "after 4,500 steps"
std::string after(const SavedRun& run) {
  const bool unknown = run.rows.empty() && !run.problems.empty();
  return unknown ? "after steps that can't be read" : fmt::format("after {}", steps(reached_step(run)));
}

// How much of `total` of the recipe is done, in [0, 1]; nothing where that can't be told.
std::optional<double> share_done(const SavedRun& run) {
  if (run.rows.empty() || run.recipe.empty()) return std::nullopt;
  try {
    config::Section recipe = config::parse_recipe(run.recipe);
    const config::Duration total = config::parse_duration(recipe.text("total", "0 steps"));
    const auto& values = run.rows.back().values;
    const char* name = total.unit == config::DurationUnit::kEpochs ? "epoch" : "examples_seen";
    auto done = static_cast<double>(reached_step(run));
    if (total.unit != config::DurationUnit::kSteps) {
      const auto found = values.find(name);
      if (found == values.end()) return std::nullopt;
      done = last_step(run) > 0 ? found->second * (done / static_cast<double>(last_step(run))) : found->second;
    }
    if (!(total.value > 0) || !std::isfinite(done)) return std::nullopt;
    return std::clamp(done / total.value, 0.0, 1.0);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "after 4,500 steps (10 % of its length)"
std::string place(const SavedRun& run) {
  const auto share = share_done(run);
  return fmt::format("{}{}", after(run), share ? fmt::format(" ({:.0f} % of its length)", 100 * *share) : "");
}

// What a gain of the score must be more than to be no chance: for shares, one standard error of the best.
double noise(const SavedRun& run, const BestScore& best) {
  if (!best.score.share) return kPart * std::abs(best.best);
  const auto counts = series(run, best.score.evaluator + "/count");
  const double n = counts.empty() ? 1 : std::max(1.0, counts.back().second);
  return kErrors * std::sqrt(std::max(best.best * (1 - best.best), 0.25 / n) / n);
}

// The mean of the training loss over the last part of the run before `step`.
std::optional<double> training_loss(const SavedRun& run, int64_t step) {
  const double reach = std::max(1.0, kSmoothing * static_cast<double>(last_step(run)));
  double sum = 0, count = 0;
  for (const auto& [at, value] : series(run, "training_loss")) {
    if (at > step || static_cast<double>(step - at) > reach || !std::isfinite(value)) continue;
    sum += value, ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

Remark score_remark(const SavedRun& run, const BestScore& best) {
  Remark remark{"score"};
  const std::string& name = best.score.evaluator;
  const auto values = series(run, best.score.metric());
  if (values.size() == 1) {
    remark.text = fmt::format("`{}` was evaluated once, at step {}: {} {}.", name, human_count(best.best_step),
                              best.score.score, best.score.text(best.best));
    return remark;
  }
  remark.text = fmt::format("Best {} of `{}`: {} at step {}", best.score.score, name, best.score.text(best.best),
                            human_count(best.best_step));
  if (!std::isfinite(values.back().second)) {
    remark.text += "; no finite number at the end.";
    remark.trouble = true;
    return remark;
  }
  const bool last = best.last_step == best.best_step;
  remark.text += last ? ", which is the last." : fmt::format("; {} at the end.", best.score.text(best.last));
  if (!last && std::abs(best.last - best.best) > 2 * noise(run, best)) {
    remark.advice = fmt::format("Keep the best weights: checkpoint.best=\"{}\".", best.score.metric());
  }
  return remark;
}

// An evaluator that ran, and never had a score to tell of.
std::optional<Remark> no_score(const SavedRun& run, const std::string& evaluator) {
  const auto score = main_score(run, evaluator);
  if (!score || series(run, score->metric()).empty()) return std::nullopt;
  return Remark{"score", fmt::format("The {} of `{}` was never a finite number.", score->score, evaluator),
                "Look at its data, the training loss, and dtype.", true};
}

std::optional<Remark> improving(const SavedRun& run, const BestScore& best) {
  if (best.evaluations < kTrend || best.best_step != best.last_step) return std::nullopt;
  const auto values = series(run, best.score.metric());
  if (!std::isfinite(values.back().second)) return std::nullopt;
  const double border = 0.75 * static_cast<double>(best.last_step);
  std::optional<double> before;
  for (const auto& [step, value] : values) {
    if (static_cast<double>(step) > border || !std::isfinite(value)) continue;
    if (!before || best.score.better(value, *before)) before = value;
  }
  if (!before || !best.score.better(best.best, *before) || std::abs(best.best - *before) <= noise(run, best))
    return std::nullopt;
  return Remark{"improving",
                fmt::format("It was still improving: {} over the last quarter of the run went from {} to {}.",
                            best.score.metric(), best.score.text(*before), best.score.text(best.best)),
                "Train longer: a greater `total`."};
}

// The training loss falls while that of other data rises.
std::optional<Remark> overfitting(const SavedRun& run, const std::string& evaluator) {
  int64_t low_step = 0, after = 0;
  double low = 0, last = 0;
  bool any = false;
  for (const auto& [step, value] : series(run, evaluator + "/loss")) {
    if (!std::isfinite(value)) continue;
    if (!any || value < low)
      low = value, low_step = step, after = 0;
    else
      ++after;
    any = true, last = value;
  }
  if (!any || after < 2 || last < kRisen * low || low <= 0) return std::nullopt;
  const auto then = training_loss(run, low_step), now = training_loss(run, last_step(run));
  if (!then || !now || *now >= *then) return std::nullopt;
  return Remark{
      "overfitting",
      fmt::format("It overfits from step {} on: the loss of `{}` rose from {:.4g} to {:.4g}, while that of training fell "
                  "from {:.4g} to {:.4g}.",
                  human_count(low_step), evaluator, low, last, *then, *now),
      "More augmentation (data.pp, mixup), more weight decay or dropout, more data, or fewer epochs.", true};
}

std::optional<Remark> input_bound(const SavedRun& run) {
  const TimeShares time = time_shares(run);
  const double working = time.training + time.waiting;
  if (working <= 0 || time.waiting < kSomeWaiting * working) return std::nullopt;
  Remark remark{"input"};
  const bool much = time.waiting > kMuchWaiting * working;
  remark.trouble = much;
  remark.text = fmt::format("{}: {:.0f} % of the training time the devices waited for images",
                            much ? "It is input-bound" : "Input", 100 * time.waiting / working);
  if (!time.stages.empty()) {
    remark.text +=
        fmt::format("; most of the input's work is {} ({:.0f} %)", time.stages[0].first, 100 * time.stages[0].second);
  }
  remark.text += ".";
  remark.advice = "data.threads, data.cache, smaller files, or a cheaper chain; `tessera data bench` shows each stage.";
  return remark;
}

std::optional<Remark> unstable(const SavedRun& run) {
  auto norms = series(run, "l2_grads");
  std::erase_if(norms, [](const auto& at) { return !std::isfinite(at.second); });
  if (norms.size() < kManyNorms) return std::nullopt;
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
  const auto [step, most] = *std::ranges::max_element(norms, {}, &std::pair<int64_t, double>::second);
  std::ranges::nth_element(norms, middle, {}, &std::pair<int64_t, double>::second);
  const double median = middle->second;
  if (median <= 0 || most < kSpike * median) return std::nullopt;
  return Remark{
      "unstable",
      fmt::format("Training is unstable: the norm of the gradients reached {:.3g} at step {}, {:.0f} times its median.", most,
                  human_count(step), most / median),
      "A longer warmup, a smaller rate, or optimizer.clip.", true};
}

// Nothing was learned.
std::optional<Remark> at_chance(const SavedRun& run, const BestScore& best) {
  if (best.score.score != "prec@1") return std::nullopt;
  for (const train::EvaluationSummary& evaluation : run.evaluations) {
    if (evaluation.name != best.score.evaluator || evaluation.classes.size() < 2) continue;
    const double chance = 1 / static_cast<double>(evaluation.classes.size());
    if (best.best > chance + 3 * noise(run, best)) return std::nullopt;
    return Remark{"chance",
                  fmt::format("`{}` is at the level of chance, 1 of {} classes: nothing was learned.", best.score.evaluator,
                              human_count(static_cast<int64_t>(evaluation.classes.size()))),
                  "Look at the images and labels (below), the learning rate, and the loss of training.", true};
  }
  return std::nullopt;
}

// What was told while the run went on, and nothing else here says: the first time, and how often.
std::optional<Remark> alert(const std::vector<monitor::Alert>& alerts, const std::string& kind) {
  const auto first = std::ranges::find(alerts, kind, &monitor::Alert::kind);
  if (first == alerts.end()) return std::nullopt;
  const auto sentence = [](std::string clause) {
    clause[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(clause[0])));
    return clause + ".";
  };
  Remark remark{kind, sentence(first->text), sentence(first->advice), true};
  const auto times = std::ranges::count(alerts, kind, &monitor::Alert::kind);
  if (times > 1) remark.text += fmt::format(" It happened {} times.", human_count(times));
  return remark;
}

// As a run tells its alerts: of the recipe's evaluators, without averaged weights.
monitor::ClassCounts class_counts(const SavedRun& run) {
  monitor::ClassCounts counts;
  for (const train::EvaluationSummary& evaluation : run.evaluations) {
    if (std::ranges::find(run.evaluators, evaluation.name) == run.evaluators.end()) continue;
    counts[evaluation.name] = static_cast<int64_t>(evaluation.classes.size());
  }
  return counts;
}

std::optional<Remark> unreadable(const SavedRun& run) {
  for (const train::EvaluationSummary& evaluation : run.evaluations) {
    if (evaluation.skipped == 0) continue;
    return Remark{"unreadable",
                  fmt::format("{} of `{}` could not be read and {} left out of its scores.",
                              evaluation.skipped == 1 ? "One file" : human_count(evaluation.skipped) + " files",
                              evaluation.name, evaluation.skipped == 1 ? "is" : "are"),
                  fmt::format("evals/{}_….skipped.jsonl names them; tessera data check.", evaluation.name), true};
  }
  return std::nullopt;
}

// By [guard] of the recipe.
std::optional<Remark> skipped(const SavedRun& run) {
  const auto skips = series(run, "skips");
  if (skips.empty() || skips.back().second < 1) return std::nullopt;
  Remark remark{"skipped"};
  const auto count = static_cast<int64_t>(skips.back().second);
  remark.text =
      fmt::format("{} of {} updates {} skipped.", human_count(count), human_count(last_step(run)), count == 1 ? "was" : "were");
  remark.advice = "What they were made of is in bad_batches/.";
  return remark;
}

bool was_finished(const SavedRun& run) { return run.facts && run.facts->state == "done"; }

}  // namespace

Remark ending(const SavedRun& run) {
  Remark remark{"ended"};
  const std::string state = run.facts ? run.facts->state : "";
  if (state == "done") {
    const std::string& early = run.facts->message;
    remark.text = early.empty() ? fmt::format("The run ended as planned, {}.", after(run))
                                : fmt::format("The run ended early, {}: {}.", after(run), early);
  } else if (state == "stopped") {
    remark.text = fmt::format("The run was stopped early by {}, {}.", run.facts->message, place(run));
    remark.advice = run.facts->message == "--until" ? "The same command without --until goes on with it."
                                                    : "The same command goes on with it.";
  } else if (state == "diverged") {
    constexpr std::string_view kSaid = "the run diverged: ";
    const std::string& why = run.facts->message;
    remark.text = fmt::format("The run diverged: {}.", why.starts_with(kSaid) ? why.substr(kSaid.size()) : why);
    remark.advice = "A smaller learning rate, a longer warmup, or tighter clipping (optimizer.clip).";
  } else if (state == "failed") {
    remark.text = fmt::format("The run failed {}: {}.", place(run), run.facts->message);
  } else if (run.rows.empty() && run.problems.empty()) {
    remark.text = "Nothing was measured yet.";
  } else if (state == "running") {
    remark.text = fmt::format("The run goes on, or was killed, {}.", place(run));
    remark.advice = "The same command goes on with a killed run.";
  } else {
    remark.text = fmt::format("The measurements end {}.", place(run));
  }
  remark.trouble = state == "diverged" || state == "failed";
  return remark;
}

std::vector<Remark> verdict(const SavedRun& run) {
  std::vector<Remark> remarks = {ending(run)};
  for (const std::string& problem : run.problems)
    remarks.push_back({"unread", fmt::format("A part of the run is left out: {}.", problem), "", true});
  const auto add = [&](std::optional<Remark> remark) {
    if (remark) remarks.push_back(std::move(*remark));
  };
  bool first = true, overfits = false;
  for (const std::string& evaluator : evaluator_names(run)) {
    const auto best = best_score(run, evaluator);
    if (!best) {
      add(no_score(run, evaluator));
      continue;
    }
    add(score_remark(run, *best));
    const auto over = overfitting(run, evaluator);
    if (over && !std::exchange(overfits, true)) add(over);
    if (!std::exchange(first, false)) continue;
    if (!over && was_finished(run)) add(improving(run, *best));
    add(at_chance(run, *best));
  }
  add(unstable(run));
  add(skipped(run));
  add(input_bound(run));
  // input and chance have remarks of their own, about the whole run.
  const std::vector<monitor::Alert> alerts = monitor::alerts_of(run.rows, class_counts(run));
  for (const char* kind : {"loss_spike", "images", "input", "process", "throughput", "memory", "chance"}) {
    if (std::ranges::find(remarks, kind, &Remark::topic) == remarks.end()) add(alert(alerts, kind));
  }
  add(unreadable(run));
  return remarks;
}

}  // namespace tessera::report
