#pragma once
// A linear probe: multinomial logistic regression on a model's features.

#include <cstdint>
#include <vector>

#include "metrics/features.h"

namespace tessera::metrics {

struct LinearProbeOptions {
  // Minimises c * sum of cross-entropies + |W|^2 / 2, the bias being free: scikit-learn's LogisticRegression(C=c).
  double c = 1;
  bool standardise = true;  // features to mean 0 and standard deviation 1 over the training rows (constant ones to 0)
  int max_iterations = 1000;
};

struct LinearProbe {
  int64_t width = 0, classes = 0;
  std::vector<double> weights;  // [classes, width], for features as they come
  std::vector<double> bias;     // [classes]
  int iterations = 0;
  bool converged = false;
};

// By L-BFGS, from zeros, in f64.
LinearProbe fit_linear_probe(const LabelledFeatures& train, int64_t classes, const LinearProbeOptions& options);

// argmax of W x + b; of equal ones the lowest.
std::vector<int32_t> probe_classes(const LinearProbe& probe, const Features& test);

}  // namespace tessera::metrics
