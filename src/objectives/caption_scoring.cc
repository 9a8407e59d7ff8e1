#include "objectives/caption_scoring.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/captioning.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class CaptionScoring final : public Scorer {
 public:
  // `prompts`: [classes, captions.length], of every image; empty where candidates are among the inputs.
  CaptionScoring(Inputs inputs, const TokenInput& captions, std::vector<int32_t> prompts, int64_t at_once)
      : inputs_(std::move(inputs)), captions_(captions), prompts_(std::move(prompts)), at_once_(at_once) {}
  const Inputs& inputs(size_t) const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    check_captioner(model, {false, {captions_}}, section);
  }
  std::vector<ScoreKind> scores() const override { return {{"prec@1", true}}; }

  std::vector<Column> columns(size_t) const override { return {{"prec@1"}, {"predicted", 1, !prompts_.empty()}}; }
  Values rows(size_t, const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    const models::Captioner& captioner = as_captioner(model);
    const Value encoded = captioner.encode(scope, batch.images);
    const Value predicted =
        ir::argmax(score_captions(captioner, scope, encoded, candidates(batch), captions_.pad, at_once_), 1);
    return {ir::compare(ir::Compare::kEq, predicted, batch.labels), predicted};
  }

 private:
  // [B, count, length].
  Value candidates(const Batch& batch) const {
    const int64_t rows = batch.images.dim(0), length = captions_.length;
    if (prompts_.empty()) return ir::reshape(batch.tokens[0], {rows, -1, length});
    const auto count = static_cast<int64_t>(prompts_.size()) / length;
    const auto bytes = std::as_bytes(std::span<const int32_t>(prompts_));
    return ir::broadcast_to(ir::constant_array({DType::kI32, {count, length}}, bytes), {rows, count, length});
  }

  Inputs inputs_;
  TokenInput captions_;
  std::vector<int32_t> prompts_;
  int64_t at_once_;
};

std::vector<std::string> read_prompts(const config::Section& section, const CaptionScoringOptions& options,
                                      const ScorerData& data) {
  std::vector<std::string> prompts = options.prompts.empty() ? data.class_names : read_lines(options.prompts);
  if (prompts.size() < 2) {
    section.fail("prompts", fmt::format("gives {} captions to choose from", prompts.size()), "a file of one for each class");
  }
  const auto classes = static_cast<size_t>(data.inputs.classes);
  if (classes > 0 && prompts.size() != classes) {
    section.fail("prompts", fmt::format("gives {} captions, and the data has {} classes", prompts.size(), classes),
                 "one line for each class, in the order of the classes");
  }
  for (std::string& prompt : prompts) prompt = options.prefix + prompt;
  return prompts;
}

}  // namespace

std::shared_ptr<const Scorer> make_caption_scoring(config::Section section, const ScorerData& data) {
  CaptionScoringOptions options;
  section.bind_part(options);
  if (options.at_once < 1) section.fail("at_once", fmt::format("must be at least 1, and is {}", options.at_once));
  if (!data.captions) {
    section.fail("type", "is caption_scoring, and training reads no captions", "end data.pp with tokenize(…)");
  }
  Inputs inputs{true, {}};
  std::vector<int32_t> ids;
  if (!options.candidates.empty()) {
    inputs.tokens.push_back(find_several(data.inputs, options.candidates, *data.captions, section, "candidates"));
    if (inputs.tokens[0].length == data.captions->length) section.fail("candidates", "are one for each image", "texts=N");
    return std::make_shared<CaptionScoring>(std::move(inputs), *data.captions, std::move(ids), options.at_once);
  }
  for (const std::string& prompt : read_prompts(section, options, data)) {
    const std::vector<int32_t> row = data.encode(prompt);
    ids.insert(ids.end(), row.begin(), row.end());
  }
  return std::make_shared<CaptionScoring>(std::move(inputs), *data.captions, std::move(ids), options.at_once);
}

Value score_captions(const models::Captioner& model, const nn::Scope& scope, Value encoded, Value captions, int32_t pad,
                     int64_t at_once) {
  const int64_t batch = captions.dim(0), count = captions.dim(1), length = captions.dim(2);
  int64_t part = std::min(at_once, count);
  while (count % part != 0) --part;
  const Value parts = ir::transpose(ir::reshape(captions, {batch, count / part, part, length}), {1, 0, 2, 3});
  const auto body = [&](const Values&, const Values& x) -> ir::ScanResult {
    const Value rows = ir::reshape(x[0], {batch * part, length});  // those of one image are neighbours
    const Inputs inputs{false, {{"", length, 0, pad}}};
    const Value logits = model.decode(scope, encoded, rows);
    const Value nll = token_cross_entropy(logits, rows, token_weights(inputs, {rows}), 0, false);
    return {{}, {ir::reshape(-nll, {batch, part})}};
  };
  const Value scores = ir::scan(count / part, {}, {parts}, body).ys[0];
  return ir::reshape(ir::transpose(scores, {1, 0, 2}), {batch, count});
}

}  // namespace tessera::objectives
