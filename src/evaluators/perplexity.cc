#include "evaluators/perplexity.h"

#include "base/error.h"

namespace tessera::evaluators {
namespace {

class Perplexity final : public Evaluator {
 public:
  Perplexity(objectives::Inputs inputs, bool normalize) : inputs_(std::move(inputs)), normalize_(normalize) {}
  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    objectives::check_captioner(model, inputs_, section);
  }
  std::vector<ScoreKind> score_kinds() const override { return {{"perplexity"}}; }

  std::vector<Column> columns(size_t) const override { return {{"perplexity"}}; }
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const models::Captioner& captioner = objectives::as_captioner(model);
    const ir::Value logits = captioner.decode(scope, captioner.encode(scope, batch.images), batch.tokens[0]);
    return {objectives::token_cross_entropy(logits, batch.tokens[0], objectives::token_weights(inputs_, batch.tokens), 0,
                                            normalize_)};
  }

 private:
  objectives::Inputs inputs_;
  bool normalize_;
};

}  // namespace

std::shared_ptr<const Evaluator> make_perplexity(config::Section section, const EvaluatorData& data) {
  PerplexityOptions options;
  section.bind_part(options);
  return std::make_shared<Perplexity>(objectives::caption_inputs(options.captions, data.inputs, section),
                                      options.normalize_by_seqlen);
}

const EvaluatorKind kPerplexity = {"perplexity", "mean over captions of the negative log-likelihood of their tokens",
                                   make_perplexity, config::keys_of<PerplexityOptions>};

}  // namespace tessera::evaluators
