#include "metrics/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tessera::metrics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Ranking rank(std::span<const double> scores, std::span<const uint8_t> of_class) {
  TESSERA_CHECK(scores.size() == of_class.size(), "{} scores of {} examples", scores.size(), of_class.size());
  const auto score = [&](size_t i) { return std::isnan(scores[i]) ? -std::numeric_limits<double>::infinity() : scores[i]; };
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return score(a) > score(b); });

  const auto positives = static_cast<double>(std::ranges::count(of_class, uint8_t{1}));
  const double negatives = static_cast<double>(scores.size()) - positives;
  double right = 0, seen = 0, precisions = 0, pairs = 0;
  for (size_t i = 0; i < order.size();) {
    // Examples of equal scores stand at one threshold.
    double own = 0, others = 0;
    for (const double level = score(order[i]); i < order.size() && score(order[i]) == level; ++i) {
      (of_class[order[i]] ? own : others) += 1;
    }
    pairs += own * (negatives - (seen - right) - others) + own * others / 2;
    right += own;
    seen += own + others;
    precisions += own * right / seen;
  }
  return {positives > 0 ? precisions / positives : kNone,
          positives > 0 && negatives > 0 ? pairs / (positives * negatives) : kNone};
}

double mean_of_defined(std::span<const double> values) {
  double sum = 0;
  int64_t count = 0;
  for (const double value : values) {
    if (!std::isnan(value)) sum += value, ++count;
  }
  return count == 0 ? kNone : sum / static_cast<double>(count);
}

}  // namespace tessera::metrics
