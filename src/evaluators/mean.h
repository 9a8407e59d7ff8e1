#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct MeanOptions {
  template <class Visitor>
  void visit(Visitor&&) {}
};

// The factory of evaluators.def: `loss` and the measurements of the objective that training minimises, on other data.
std::shared_ptr<const Evaluator> make_mean(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
