#include "train/sweep/rows.h"

#include <algorithm>
#include <cmath>

namespace tessera::sweep {

std::optional<double> Row::mean() const {
  if (scores.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : scores) sum += value;
  return sum / static_cast<double>(scores.size());
}

std::optional<double> Row::deviation() const {
  if (scores.size() < 2) return std::nullopt;
  double sum = 0;
  for (const double value : scores) sum += (value - *mean()) * (value - *mean());
  return std::sqrt(sum / static_cast<double>(scores.size() - 1));
}

Variant settings_of(Variant variant) {
  std::erase_if(variant, [](const auto& one) { return one.first == "seed" || one.first == "data.fold"; });
  return variant;
}

std::vector<Row> rows_of(const std::vector<Variant>& variants, const std::vector<std::optional<double>>& scores) {
  std::vector<Row> rows;
  for (size_t i = 0; i < variants.size(); ++i) {
    const Variant settings = settings_of(variants[i]);
    auto row = std::ranges::find(rows, settings, &Row::settings);
    if (row == rows.end()) row = rows.insert(rows.end(), Row{settings, {}, {}});
    row->trials.push_back(i);
    if (scores[i]) row->scores.push_back(*scores[i]);
  }
  return rows;
}

void rank(std::vector<Row>& rows, const recipe::BestMetric& metric) {
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    const auto x = a.mean(), y = b.mean();
    return x && (!y || metric.better(*x, *y));
  });
}

}  // namespace tessera::sweep
