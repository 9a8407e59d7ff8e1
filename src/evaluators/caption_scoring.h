#pragma once

#include "evaluators/evaluator.h"
#include "models/image_text/captioner.h"

namespace tessera::evaluators {

struct CaptionScoringOptions {
  std::string prompts, prefix, candidates;
  bool parallel = false;
  int64_t at_once = 16;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("prompts", prompts, "a file with the caption of each class, a line each; the names of the classes when not given");
    field("prefix", prefix, "text that stands before each of them");
    field(
        "candidates", candidates,
        "instead of prompts, captions of each image's own: an array that tokenize(…, texts=N) makes; the label is the place of "
        "the right one");
    field(
        "parallel", parallel,
        "predict all tokens of a caption at once, from the image alone, as CapPa learns besides; the decoder runs once for all "
        "captions of an image");
    field("at_once", at_once, "captions scored together for each image: more take more memory");
  }
};

// The factory of evaluators.def: `prec@1`, whether the label's prompt (or candidate) is the likeliest caption of the image, by
// the sum of its tokens' log-likelihoods, token after token or, which big_vision has not, in parallel. Images are encoded once.
// big_vision's evaluators/proj/cappa/scoring_classifier.py.
std::shared_ptr<const Evaluator> make_caption_scoring(config::Section section, const EvaluatorData& available);

// Sum over tokens, but for padding, of log p(token | image, tokens before): encoded [B, image tokens, width], captions i32 [B,
// count, input().tokens] -> f32 [B, count]. `at_once` captions of each image are decoded together.
ir::Value score_captions(const models::Captioner& model, const nn::Scope& scope, ir::Value encoded, ir::Value captions,
                         int32_t pad, int64_t at_once);
// The sum over tokens of log p(token | image), predicted in parallel with every token hidden; a model that has_parallel().
ir::Value score_captions_in_parallel(const models::Captioner& model, const nn::Scope& scope, ir::Value encoded,
                                     ir::Value captions, int32_t pad);

}  // namespace tessera::evaluators
