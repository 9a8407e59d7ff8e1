#pragma once
// Successive halving (K. Jamieson, A. Talwalkar 2016, "Non-stochastic Best Arm Identification"; scikit-learn's
// HalvingGridSearchCV): all settings train for a short budget, the best 1/eta of them go on to a budget that is eta times as
// long, and so forth, until those that are left train to the end.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "train/sweep/variants.h"

namespace tessera::sweep {

struct HalvingOptions {
  int64_t eta = 3;         // 2 or more
  std::string min_budget;  // of the first rung, a duration (config/duration.h); empty: total / eta^n, as below
};

// The steps at which trials of the recipe are compared, ascending; the last one is the run's length. Without a min_budget there
// are n = floor(log_eta(settings)) of them (1 at least) before it, at total / eta^n, total / eta^(n-1), …; with one they are at
// min_budget, eta * min_budget, … Each is moved to the nearest step at which the metric is measured anyway, so that a run which
// pauses there is that of one which never does. A usage Error where none is left before the end, or min_budget is no duration.
std::vector<int64_t> rungs_of(const recipe::Recipe& recipe, const HalvingOptions& options, const recipe::BestMetric& metric,
                              size_t settings);

// The trials that go on, ascending: those of the best 1/eta of the settings, rounded down, and of one at least. Settings are
// ranked by the mean of their trials' scores. Settings without a score are left out.
std::vector<size_t> survivors(const std::vector<Variant>& variants, const std::vector<std::optional<double>>& scores,
                              const recipe::BestMetric& metric, int64_t eta);

}  // namespace tessera::sweep
