#include "metrics/features.h"

#include <functional>
#include <numeric>

#include "base/error.h"

namespace tessera::metrics {

Features take_rows(const Features& features, std::span<const int64_t> rows) {
  Features taken{features.width, {}};
  taken.values.reserve(rows.size() * static_cast<size_t>(features.width));
  for (const int64_t row : rows) {
    TESSERA_CHECK(row >= 0 && row < features.rows(), "row {} of {}", row, features.rows());
    const std::span<const float> values = features.row(row);
    taken.values.insert(taken.values.end(), values.begin(), values.end());
  }
  return taken;
}

LabelledFeatures take_rows(const LabelledFeatures& examples, std::span<const int64_t> rows) {
  LabelledFeatures taken{take_rows(examples.features, rows), {}};
  for (const int64_t row : rows) taken.labels.push_back(examples.labels[static_cast<size_t>(row)]);
  return taken;
}

double share_equal(std::span<const int32_t> a, std::span<const int32_t> b) {
  TESSERA_CHECK(a.size() == b.size() && !a.empty(), "{} and {}", a.size(), b.size());
  const auto equal = std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0}, std::plus<>(), std::equal_to<>());
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

}  // namespace tessera::metrics
