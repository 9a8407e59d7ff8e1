#pragma once

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

struct RetrievalOptions {
  std::string texts;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("texts", texts,
          "the texts of each image: what tokenize(…, texts=N, to=NAME) of the data's pp makes; may be left out where it makes "
          "one "
          "array");
  }
};

// The factory of evaluators.def, for models that embed images and texts: of all images and texts of the data, img2txt_R@k, the
// share of images that find one of their own texts among the nearest k, and txt2img_R@k, of texts that find their image; k = 1,
// 5, 10 (metrics/retrieval.h). Texts without a token are none.
std::shared_ptr<const Evaluator> make_retrieval(config::Section section, const EvaluatorData& data);

}  // namespace tessera::evaluators
