#include "train/sweep/halving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "config/duration.h"
#include "train/sweep/rows.h"

namespace tessera::sweep {
namespace {

constexpr const char* kMinBudget = "--min-budget";

// Whose score the metric is; null for one of training.
const recipe::EvalPlan* evaluator_of(const recipe::Recipe& recipe, const recipe::BestMetric& metric) {
  for (const recipe::EvalPlan& plan : recipe.evals) {
    if (metric.name.starts_with(plan.name + "/") || metric.name.starts_with(recipe::averaged_name(plan.name) + "/"))
      return &plan;
  }
  return nullptr;
}

// Steps before the last one at which the metric is measured, ascending.
std::vector<int64_t> measured_steps(const recipe::Recipe& recipe, const recipe::BestMetric& metric) {
  const recipe::EvalPlan* plan = evaluator_of(recipe, metric);
  std::vector<int64_t> steps;
  for (int64_t step = 1; step < recipe.total; ++step) {
    if (plan ? recipe::due(*plan, step, recipe.run, recipe.total) : recipe::due(step, recipe.log_every, recipe.total))
      steps.push_back(step);
  }
  return steps;
}

// The lower one of two that are as near.
int64_t nearest(const std::vector<int64_t>& steps, double to) {
  return *std::ranges::min_element(steps, {}, [&](int64_t step) { return std::abs(static_cast<double>(step) - to); });
}

double first_budget(const recipe::Recipe& recipe, const HalvingOptions& options, size_t settings) {
  const auto total = static_cast<double>(recipe.total);
  if (options.min_budget.empty()) {
    double budget = total / static_cast<double>(options.eta);
    for (size_t left = settings / static_cast<size_t>(options.eta); left >= static_cast<size_t>(options.eta);
         left /= static_cast<size_t>(options.eta))
      budget /= static_cast<double>(options.eta);
    return budget;
  }
  const config::Duration least = config::parse_duration(options.min_budget, kMinBudget);
  const int64_t steps = config::to_steps(least, recipe.batch, recipe.examples_per_epoch, recipe.total, kMinBudget);
  if (steps >= 1 && steps < recipe.total) return static_cast<double>(steps);
  throw usage_error(fmt::format("`{}` is {} of a run of {} steps, and trials are compared before its end", options.min_budget,
                                steps < 1 ? "nothing" : "all", human_count(recipe.total)),
                    kMinBudget, "for example --min-budget \"10 %\"");
}

}  // namespace

std::vector<int64_t> rungs_of(const recipe::Recipe& recipe, const HalvingOptions& options, const recipe::BestMetric& metric,
                              size_t settings) {
  const std::vector<int64_t> measured = measured_steps(recipe, metric);
  if (measured.empty()) {
    const recipe::EvalPlan* plan = evaluator_of(recipe, metric);
    const std::string key = plan ? fmt::format("eval.{}.every", plan->name) : "log";
    throw usage_error(
        fmt::format("{} is not measured before the end of a run, so --halving has nothing to compare trials by", metric.name),
        key, fmt::format("measure it more often, as {}=\"5 %\"", key));
  }
  std::vector<int64_t> rungs;
  for (double budget = first_budget(recipe, options, settings); budget < static_cast<double>(recipe.total) - 0.5;
       budget *= static_cast<double>(options.eta)) {
    const int64_t step = nearest(measured, budget);
    if (rungs.empty() || step > rungs.back()) rungs.push_back(step);
  }
  rungs.push_back(recipe.total);
  return rungs;
}

std::vector<size_t> survivors(const std::vector<Variant>& variants, const std::vector<std::optional<double>>& scores,
                              const recipe::BestMetric& metric, int64_t eta) {
  std::vector<Row> rows = rows_of(variants, scores);
  std::erase_if(rows, [](const Row& row) { return row.scores.empty(); });
  rank(rows, metric);
  const size_t kept = std::max<size_t>(rows.size() / static_cast<size_t>(eta), 1);
  std::vector<size_t> out;
  for (size_t i = 0; i < std::min(kept, rows.size()); ++i) out.insert(out.end(), rows[i].trials.begin(), rows[i].trials.end());
  std::ranges::sort(out);
  return out;
}

}  // namespace tessera::sweep
