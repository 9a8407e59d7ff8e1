#pragma once
// Evaluators of models that embed images and texts.

#include "models/image_text.h"
#include "objectives/scorer.h"

namespace tessera::objectives {

class ImageTextScorer : public Scorer {
 public:
  // A usage Error at `type` where training reads no texts.
  ImageTextScorer(const config::Section& section, const ScorerData& data);
  void check(const models::Model& model, const config::Section& section) const override;

 protected:
  // A text as training reads it.
  const TokenInput& text() const { return text_; }
  static const models::ImageText& towers(const models::Model& model);

 private:
  TokenInput text_;
};

}  // namespace tessera::objectives
