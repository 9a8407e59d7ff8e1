#include "base/error.h"
#include "evaluators/evaluator.h"
#include "objectives/captioning.h"

namespace tessera::evaluators {
namespace {

struct PerplexityOptions {
  objectives::CaptionOptions captions;
  bool normalize_by_seqlen = false;
  template <class Visitor>
  void visit(Visitor&& field) {
    captions.visit(field);
    field("normalize_by_seqlen", normalize_by_seqlen, "the mean over a caption's tokens instead of their sum");
  }
};

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

// `perplexity`: the negative log-likelihood of a caption, token after token, natural logarithm, not exponentiated, as
// big_vision's evaluators/proj/cappa/perplexity.py.
std::shared_ptr<const Evaluator> make_perplexity(config::Section section, const EvaluatorData& available) {
  PerplexityOptions options;
  section.bind_part(options);
  return std::make_shared<Perplexity>(objectives::caption_inputs(options.captions, available.inputs, section),
                                      options.normalize_by_seqlen);
}

}  // namespace

const EvaluatorKind kPerplexity = {"perplexity", "mean over captions of the negative log-likelihood of their tokens",
                                   make_perplexity, config::keys_of<PerplexityOptions>};

}  // namespace tessera::evaluators
