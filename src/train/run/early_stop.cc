#include "train/run/early_stop.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/text.h"

namespace tessera::train {
namespace {

std::optional<double> find_score(const std::string& metric, const NamedScores& scores) {
  for (const auto& [name, s] : scores) {
    if (!metric.starts_with(name + "/")) continue;
    if (const auto score = s.find(metric.substr(name.size() + 1))) return score;
  }
  return std::nullopt;
}

}  // namespace

std::optional<state::EarlyStopState> after_scores(const recipe::EarlyStop& rule, std::optional<state::EarlyStopState> state,
                                                  int64_t step, const NamedScores& scores) {
  const std::optional<double> score = find_score(rule.metric.name, scores);
  if (!score) return state;
  if (state && state->metric != rule.metric.name) state.reset();
  const double gain = !state ? 0 : rule.metric.share ? *score - state->best : state->best - *score;
  const bool better = std::isfinite(*score) && (!state || gain > rule.min_delta);
  if (better) return state::EarlyStopState{rule.metric.name, *score, step, step, 0};
  if (!state) return state;
  state->last_step = step;
  ++state->worse;
  return state;
}

std::optional<std::string> early_end(const std::optional<recipe::EarlyStop>& rule,
                                     const std::optional<state::EarlyStopState>& state) {
  if (!rule || !state || state->metric != rule->metric.name) return std::nullopt;
  const int64_t waited = rule->evaluations ? state->worse : state->last_step - state->best_step;
  if (waited < rule->patience) return std::nullopt;
  return fmt::format("{} was best at step {} ({:.4g}) and got no better{} for {}", state->metric, human_count(state->best_step),
                     state->best, rule->min_delta > 0 ? fmt::format(" by more than {:g}", rule->min_delta) : "", rule->text);
}

}  // namespace tessera::train
