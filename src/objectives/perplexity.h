#pragma once

#include "objectives/captioning.h"
#include "objectives/scorer.h"

namespace tessera::objectives {

struct PerplexityOptions {
  CaptionOptions captions;
  bool normalize_by_seqlen = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    captions.visit(field);
    field("normalize_by_seqlen", normalize_by_seqlen, "the mean over a caption's tokens instead of their sum");
  }
};

// The factory of scorers.def: `perplexity`, the negative log-likelihood of a caption token after token, natural logarithm; not
// exponentiated. big_vision's evaluators/proj/cappa/perplexity.py.
std::shared_ptr<const Scorer> make_perplexity(config::Section section, const ScorerData& data);

}  // namespace tessera::objectives
