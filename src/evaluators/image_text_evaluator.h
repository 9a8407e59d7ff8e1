#pragma once
// Evaluators of models that embed images and texts.

#include "evaluators/evaluator.h"
#include "models/image_text/image_text.h"

namespace tessera::evaluators {

class ImageTextEvaluator : public Evaluator {
 public:
  // A usage Error at `type` where training reads no texts.
  ImageTextEvaluator(const config::Section& section, const EvaluatorData& available);
  void check(const models::Model& model, const config::Section& section) const override;

 protected:
  // A text as training reads it.
  const objectives::TokenInput& text() const { return text_; }
  static const models::ImageText& towers(const models::Model& model);

 private:
  objectives::TokenInput text_;
};

}  // namespace tessera::evaluators
