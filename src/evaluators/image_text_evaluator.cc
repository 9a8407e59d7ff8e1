#include "evaluators/image_text_evaluator.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::evaluators {

ImageTextEvaluator::ImageTextEvaluator(const config::Section& section, const EvaluatorData& available) {
  if (!available.captions) {
    section.fail("type", "compares images with texts, and training reads no texts", "end data.pp with tokenize(…)");
  }
  text_ = *available.captions;
}

void ImageTextEvaluator::check(const models::Model& model, const config::Section& section) const {
  if (model.image_text() == nullptr) {
    section.fail("type", "compares images with texts, and the model embeds no texts",
                 "take another type, or a two_tower model");
  }
  const models::InputShape& in = model.input();
  if (in.tokens == text_.length && in.vocabulary == text_.vocabulary) return;
  section.fail("type",
               fmt::format("gives the model texts of {} tokens of {}, and it takes {} of {}", text_.length, text_.vocabulary,
                           in.tokens, in.vocabulary),
               "the chain data.pp says how texts are made: take that of the model's training");
}

const models::ImageText& ImageTextEvaluator::towers(const models::Model& model) {
  const auto* towers = model.image_text();
  TESSERA_CHECK(towers != nullptr, "{} embeds no texts", model.describe());
  return *towers;
}

}  // namespace tessera::evaluators
