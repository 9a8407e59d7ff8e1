#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct LinearProbeOptions {
  double c = 1;
  bool standardise = true;
  int64_t max_iterations = 1000;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("c", c, "weight of the cross-entropy against |W|^2 / 2: scikit-learn's LogisticRegression(C=c)");
    field("standardise", standardise, "features to mean 0 and standard deviation 1 over train");
    field("max_iterations", max_iterations, "of L-BFGS");
  }
};

// The factory of evaluators.def: `prec@1` (metrics/linear_probe.h). Warns where the fit did not converge.
std::shared_ptr<const Evaluator> make_linear_probe(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
