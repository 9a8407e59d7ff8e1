#include "objectives/captioning.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "store/file.h"
#include "store/servers/buckets.h"
#include "store/small_file.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Captioning final : public Objective {
 public:
  Captioning(Inputs inputs, double label_smoothing) : inputs_(std::move(inputs)), label_smoothing_(label_smoothing) {}

  const Inputs& inputs() const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    check_captioner(model, inputs_, section);
  }

  Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    const models::Captioner& captioner = as_captioner(model);
    const Value encoded = captioner.encode(scope, batch.images), captions = batch.tokens[0];
    return {captioner.decode(scope, encoded, captions, captioner.draw_parallel(scope, captions.dim(0)))};
  }
  Value loss(const Values& outputs, const Batch& batch) const override {
    return token_cross_entropy(outputs[0], batch.tokens[0], token_weights(inputs_, batch.tokens), label_smoothing_, true);
  }

 private:
  Inputs inputs_;
  double label_smoothing_;
};

}  // namespace

std::shared_ptr<const Objective> make_captioning(config::Section section, const DataInputs& available) {
  CaptioningOptions options;
  section.bind(options);
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    section.fail("label_smoothing", fmt::format("must lie in [0, 1), and is {}", options.label_smoothing));
  }
  return std::make_shared<Captioning>(caption_inputs(options.captions, available, section), options.label_smoothing);
}

Inputs caption_inputs(const CaptionOptions& options, const DataInputs& available, const config::Section& section) {
  Inputs inputs;
  inputs.tokens.push_back(find_tokens(available, options.tokens, section, "tokens"));
  if (options.label_masks.empty()) return inputs;
  inputs.tokens.push_back(find_tokens(available, options.label_masks, section, "label_masks"));
  if (inputs.tokens[1].length != inputs.tokens[0].length) {
    section.fail("label_masks",
                 fmt::format("are {} long, and the captions {}", inputs.tokens[1].length, inputs.tokens[0].length),
                 "give both tokenize(…) the same length");
  }
  return inputs;
}

void check_captioner(const models::Model& model, const Inputs& inputs, const config::Section& section) {
  if (model.captioner() == nullptr) {
    section.fail("name", "writes no captions", "take cappa, or another objective");
  }
  const TokenInput& captions = inputs.tokens[0];
  const models::InputShape& in = model.input();
  if (in.tokens == captions.length && in.vocabulary == captions.vocabulary) return;
  section.fail(in.tokens == captions.length ? "vocabulary" : "tokens",
               fmt::format("is not the data's: the model takes {} tokens of {}, and `{}` has {} of {}", in.tokens,
                           in.vocabulary, captions.name, captions.length, captions.vocabulary),
               "leave both out: the data says them");
}

TokenInput find_several(const DataInputs& available, const std::string& name, const TokenInput& captions,
                        const config::Section& section, const char* key) {
  const TokenInput& found = find_tokens(available, name, section, key);
  if (found.length % captions.length == 0 && found.vocabulary == captions.vocabulary && found.pad == captions.pad) return found;
  section.fail(key,
               fmt::format("are {} tokens of {} filled up with {}, and training's captions {} of {} filled up with {}",
                           found.length, found.vocabulary, found.pad, captions.length, captions.vocabulary, captions.pad),
               "tokenize them as training does, with texts=N");
}

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& line : split(store::read_small_file(store::files_at(path), path, store::kMaxListFile), '\n')) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

const models::Captioner& as_captioner(const models::Model& model) {
  const auto* captioner = model.captioner();
  TESSERA_CHECK(captioner != nullptr, "{} writes no captions", model.describe());
  return *captioner;
}

Value token_weights(const Inputs& inputs, const Values& tokens) {
  const Value pad = ir::constant(inputs.tokens[0].pad, DType::kI32);
  const Value real = ir::convert(ir::compare(ir::Compare::kNe, tokens[0], pad), DType::kF32);
  return inputs.tokens.size() < 2 ? real : real * ir::convert(tokens[1], DType::kF32);
}

Value token_cross_entropy(Value logits, Value ids, Value weights, double label_smoothing, bool normalize) {
  const Value log_p = ir::log_softmax(ir::convert(logits, DType::kF32));
  Value nll = -ir::sum(log_p * ir::one_hot(ids, log_p.dim(-1), DType::kF32), {2});
  if (label_smoothing != 0) {
    const double other = label_smoothing / static_cast<double>(log_p.dim(-1) - 1);
    nll = nll * (1 - label_smoothing - other) - ir::sum(log_p, {2}) * other;
  }
  const Value total = ir::sum(nll * weights, {1});
  // A caption without a token has no loss.
  return normalize ? total / ir::maximum(ir::sum(weights, {1}), ir::constant(2e-38)) : total;
}

const ObjectiveKind kCaptioning = {"captioning", "cross-entropy over the tokens of a caption, mean over each caption's",
                                   make_captioning, config::keys_of<CaptioningOptions>};

}  // namespace tessera::objectives
