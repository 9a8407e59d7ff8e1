#pragma once

#include "objectives/scorer.h"

namespace tessera::objectives {

struct MeanOptions {
  template <class Visitor>
  void visit(Visitor&&) {}
};

// The factory of scorers.def: `loss` and the measurements of the objective that training minimises, on other data.
std::shared_ptr<const Scorer> make_mean(config::Section section, const ScorerData& data);

}  // namespace tessera::objectives
