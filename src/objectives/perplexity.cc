#include "objectives/perplexity.h"

#include "base/error.h"

namespace tessera::objectives {
namespace {

class Perplexity final : public Scorer {
 public:
  Perplexity(Inputs inputs, bool normalize) : inputs_(std::move(inputs)), normalize_(normalize) {}
  const Inputs& inputs(size_t) const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    check_captioner(model, inputs_, section);
  }
  std::vector<ScoreKind> scores() const override { return {{"perplexity"}}; }

  std::vector<Column> columns(size_t) const override { return {{"perplexity"}}; }
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    const models::Captioner& captioner = as_captioner(model);
    const ir::Value logits = captioner.decode(scope, captioner.encode(scope, batch.images), batch.tokens[0]);
    return {token_cross_entropy(logits, batch.tokens[0], token_weights(inputs_, batch.tokens), 0, normalize_)};
  }

 private:
  Inputs inputs_;
  bool normalize_;
};

}  // namespace

std::shared_ptr<const Scorer> make_perplexity(config::Section section, const ScorerData& data) {
  PerplexityOptions options;
  section.bind_part(options);
  return std::make_shared<Perplexity>(caption_inputs(options.captions, data.inputs, section), options.normalize_by_seqlen);
}

}  // namespace tessera::objectives
