#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct ZeroShotOptions {
  std::string prompts, class_names;
  bool canonicalize = true;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("prompts", prompts, "a file of texts about a class, a line each, {} its name; the name alone when not given");
    field("class_names", class_names, "a file with a name for each class, a line each; the data's when not given");
    field("canonicalize", canonicalize, "take texts in lower case and without punctuation, _ as a blank");
  }
};

// The factory of evaluators.def, for models that embed images and texts: prec@1, whether of all classes an image's own is the
// nearest; a class lies at the mean of its prompts. big_vision's evaluators/proj/image_text/discriminative_classifier.py.
std::shared_ptr<const Evaluator> make_zero_shot(config::Section section, const EvaluatorData& available);

// big_vision's canonicalize_text: _ to a blank, ASCII punctuation dropped except in "{}", lower case, single blanks.
std::string canonical_text(std::string_view text);

}  // namespace tessera::evaluators
