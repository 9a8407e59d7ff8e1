#pragma once
// Scores of how well numbers put the examples of a class before all others, as scikit-learn has them. Only the order of the
// numbers counts; NaN stands behind all of them.

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::metrics {

// How one class is ranked: `scores` of each example, the higher the more it is of the class, and whether it is (0 or 1).
struct Ranking {
  // average_precision_score: the sum over thresholds of the rise in recall times the precision. NaN where no example is of the
  // class.
  double average_precision = 0;
  // roc_auc_score: how often an example of the class stands before one that is not, equal numbers counting half. NaN where all
  // examples or none are of the class.
  double auc = 0;
};
Ranking rank(std::span<const double> scores, std::span<const uint8_t> of_class);

// The mean without NaN, the score of a class that has none. NaN where all are.
double mean_of_defined(std::span<const double> values);

}  // namespace tessera::metrics
