#pragma once
// Trials that repeat the same settings, taken together.

#include <cstddef>
#include <optional>
#include <vector>

#include "recipe/recipe.h"
#include "train/sweep/variants.h"

namespace tessera::sweep {

// Trials that differ in the seed or in data.fold alone.
struct Row {
  Variant settings;            // without seed and fold
  std::vector<size_t> trials;  // their numbers
  std::vector<double> scores;  // of those that have one

  std::optional<double> mean() const;
  std::optional<double> deviation() const;  // n - 1; nothing of fewer than two
};

// The settings of a trial: what tells it from those that only repeat it.
Variant settings_of(Variant variant);

// In the order of each row's first trial. `scores` are those of `variants`.
std::vector<Row> rows_of(const std::vector<Variant>& variants, const std::vector<std::optional<double>>& scores);

// The best mean first; those without a score last; those that are alike stay as they are.
void rank(std::vector<Row>& rows, const recipe::BestMetric& metric);

}  // namespace tessera::sweep
