#pragma once

#include "evaluators/evaluator.h"
#include "objectives/captioning.h"

namespace tessera::evaluators {

struct PerplexityOptions {
  objectives::CaptionOptions captions;
  bool normalize_by_seqlen = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    captions.visit(field);
    field("normalize_by_seqlen", normalize_by_seqlen, "the mean over a caption's tokens instead of their sum");
  }
};

// The factory of evaluators.def: `perplexity`, the negative log-likelihood of a caption token after token, natural logarithm;
// not exponentiated. big_vision's evaluators/proj/cappa/perplexity.py.
std::shared_ptr<const Evaluator> make_perplexity(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
