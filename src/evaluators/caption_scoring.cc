#include "evaluators/caption_scoring.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/captioning.h"

namespace tessera::evaluators {

using ir::Value;
using ir::Values;

namespace {

class CaptionScoring final : public Evaluator {
 public:
  // `prompts`: [classes, captions.length], of every image; empty where candidates are among the inputs.
  CaptionScoring(objectives::Inputs inputs, const objectives::TokenInput& captions, std::vector<int32_t> prompts,
                 const CaptionScoringOptions& options)
      : inputs_(std::move(inputs)),
        captions_(captions),
        prompts_(std::move(prompts)),
        parallel_(options.parallel),
        at_once_(options.at_once) {}
  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    objectives::check_captioner(model, {false, {captions_}}, section);
    if (parallel_ && !objectives::as_captioner(model).has_parallel()) {
      section.fail("parallel", "is true, and the model predicts token after token only",
                   "parallel = false, or model.masked_pred_prob above 0");
    }
  }
  std::vector<ScoreKind> score_kinds() const override { return {{"prec@1", true}}; }

  std::vector<Column> columns(size_t) const override { return {{"prec@1"}, {"predicted", 1, !prompts_.empty()}}; }
  Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const models::Captioner& captioner = objectives::as_captioner(model);
    const Value encoded = captioner.encode(scope, batch.images), captions = candidates(batch);
    const Value scores = parallel_ ? score_captions_in_parallel(captioner, scope, encoded, captions, captions_.pad)
                                   : score_captions(captioner, scope, encoded, captions, captions_.pad, at_once_);
    const Value predicted = ir::argmax(scores, 1);
    return {ir::compare(ir::Compare::kEq, predicted, batch.labels), predicted};
  }

 private:
  // [B, count, length].
  Value candidates(const objectives::Batch& batch) const {
    const int64_t rows = batch.images.dim(0), length = captions_.length;
    if (prompts_.empty()) return ir::reshape(batch.tokens[0], {rows, -1, length});
    const auto count = static_cast<int64_t>(prompts_.size()) / length;
    const auto bytes = std::as_bytes(std::span<const int32_t>(prompts_));
    return ir::broadcast_to(ir::constant_array({DType::kI32, {count, length}}, bytes), {rows, count, length});
  }

  objectives::Inputs inputs_;
  objectives::TokenInput captions_;
  std::vector<int32_t> prompts_;
  bool parallel_;
  int64_t at_once_;
};

std::vector<std::string> read_prompts(const config::Section& section, const CaptionScoringOptions& options,
                                      const EvaluatorData& available) {
  std::vector<std::string> prompts = options.prompts.empty() ? available.class_names : objectives::read_lines(options.prompts);
  if (prompts.size() < 2) {
    section.fail("prompts", fmt::format("gives {} captions to choose from", prompts.size()), "a file of one for each class");
  }
  const auto classes = static_cast<size_t>(available.inputs.classes);
  if (classes > 0 && prompts.size() != classes) {
    section.fail("prompts", fmt::format("gives {} captions, and the data has {} classes", prompts.size(), classes),
                 "one line for each class, in the order of the classes");
  }
  for (std::string& prompt : prompts) prompt.insert(0, options.prefix);
  return prompts;
}

}  // namespace

std::shared_ptr<const Evaluator> make_caption_scoring(config::Section section, const EvaluatorData& available) {
  CaptionScoringOptions options;
  section.bind_part(options);
  if (options.at_once < 1) section.fail("at_once", fmt::format("must be at least 1, and is {}", options.at_once));
  if (!available.captions) {
    section.fail("type", "is caption_scoring, and training reads no captions", "end data.pp with tokenize(…)");
  }
  objectives::Inputs inputs{true, {}};
  std::vector<int32_t> ids;
  if (!options.candidates.empty()) {
    inputs.tokens.push_back(
        objectives::find_several(available.inputs, options.candidates, *available.captions, section, "candidates"));
    if (inputs.tokens[0].length == available.captions->length) section.fail("candidates", "are one for each image", "texts=N");
    return std::make_shared<CaptionScoring>(std::move(inputs), *available.captions, std::move(ids), options);
  }
  for (const std::string& prompt : read_prompts(section, options, available)) {
    const std::vector<int32_t> row = available.encode(prompt);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  return std::make_shared<CaptionScoring>(std::move(inputs), *available.captions, std::move(ids), options);
}

Value score_captions(const models::Captioner& model, const nn::Scope& scope, Value encoded, Value captions, int32_t pad,
                     int64_t at_once) {
  const int64_t batch = captions.dim(0), count = captions.dim(1), length = captions.dim(2);
  int64_t part = std::min(at_once, count);
  while (count % part != 0) --part;
  const Value parts = ir::transpose(ir::reshape(captions, {batch, count / part, part, length}), {1, 0, 2, 3});
  const auto body = [&](const Values&, const Values& x) -> ir::ScanResult {
    const Value rows = ir::reshape(x[0], {batch * part, length});  // those of one image are neighbours
    const objectives::Inputs inputs{false, {{"", length, 0, pad}}};
    const Value logits = model.decode(scope, encoded, rows);
    const Value nll = objectives::token_cross_entropy(logits, rows, objectives::token_weights(inputs, {rows}), 0, false);
    return {{}, {ir::reshape(-nll, {batch, part})}};
  };
  const Value scores = ir::scan(count / part, {}, {parts}, body).ys[0];
  return ir::reshape(ir::transpose(scores, {1, 0, 2}), {batch, count});
}

Value score_captions_in_parallel(const models::Captioner& model, const nn::Scope& scope, Value encoded, Value captions,
                                 int32_t pad) {
  const int64_t batch = captions.dim(0), length = captions.dim(2);
  const Value hidden = ir::constant(1, DType::kBool, {batch, length});
  const models::ParallelPrediction parallel{ir::constant(1, DType::kBool, {batch}), hidden};
  const Value ids = ir::zeros({DType::kI32, {batch, length}});
  const Value log_p = ir::log_softmax(ir::convert(model.decode(scope, encoded, ids, parallel), DType::kF32));
  const Value chosen = ir::one_hot(captions, log_p.dim(2), DType::kF32);  // [batch, count, length, vocabulary]
  const Value of_tokens = ir::sum(ir::expand_dims(log_p, 1) * chosen, {3});
  return ir::sum(of_tokens * objectives::token_weights({false, {{"", length, 0, pad}}}, {captions}), {2});
}

const EvaluatorKind kCaptionScoring = {"caption_scoring", "prec@1: whether of all prompts the label's is the likeliest caption",
                                       make_caption_scoring, config::keys_of<CaptionScoringOptions>};

}  // namespace tessera::evaluators
