#pragma once
// A score as it is shown.

#include <fmt/format.h>

#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace tessera::sweep {

// "98.61 %" of what is shown in per cent, "0.1234" of others; "-" for none.
inline std::string score_text(const recipe::BestMetric& metric, std::optional<double> value) {
  if (!value) return "-";
  return recipe::in_per_cent(metric.name, metric.share) ? fmt::format("{:.2f} %", 100 * *value) : fmt::format("{:.4g}", *value);
}

}  // namespace tessera::sweep
