#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct KnnOptions {
  int64_t k = 20;
  double temperature = 0.07;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("k", k, "neighbours that vote");
    field("temperature", temperature, "a vote counts exp(cosine similarity / temperature), as DINO's; 0: each counts 1");
  }
};

// The factory of evaluators.def: `prec@1` (metrics/neighbours.h).
std::shared_ptr<const Evaluator> make_knn(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
