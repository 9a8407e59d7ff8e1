#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct FewShotOptions {
  std::vector<int64_t> shots = {1, 5, 10, 25};
  double l2 = 1024;
  int64_t seeds = 3;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("shots", shots, "examples of each class to learn from: a score for each number");
    field("l2", l2, "of the least squares' regularisation");
    field("seeds", seeds, "draws of the examples, 0, 1, …; a score is the mean over them");
  }
};

// The factory of evaluators.def: `1shot`, `5shot`, … (metrics/few_shot.h).
std::shared_ptr<const Evaluator> make_few_shot(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
