#pragma once

#include "objectives/scorer.h"

namespace tessera::objectives {

struct ClassificationOptions {
  template <class Visitor>
  void visit(Visitor&&) {}
};

// The factory of scorers.def: loss (softmax cross-entropy, natural logarithm), prec@1 and prec@5.
std::shared_ptr<const Scorer> make_classification(config::Section section, const ScorerData& data);

}  // namespace tessera::objectives
