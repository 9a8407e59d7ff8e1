#include "objectives/classification.h"

#include "base/error.h"
#include "objectives/softmax.h"

namespace tessera::objectives {
namespace {

class Classification final : public Scorer {
 public:
  Classification() { inputs_.labels = true; }
  const Inputs& inputs() const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override {
    if (dynamic_cast<const models::Classifier*>(&model) != nullptr) return;
    section.fail("type", "is classification, and the model is no classifier", "take another type of evaluator");
  }
  std::vector<ScoreKind> scores() const override { return {{"loss"}, {"prec@1", true}, {"prec@5", true}}; }

  ir::Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    return {classify(model, scope, batch.images)};
  }
  ir::Value score(size_t index, const ir::Values& outputs, const Batch& batch) const override {
    if (index == 0) return softmax_cross_entropy(outputs[0], batch.labels);
    return top_k_correct(outputs[0], batch.labels, index == 1 ? 1 : 5);
  }

 private:
  Inputs inputs_;
};

}  // namespace

std::shared_ptr<const Scorer> make_classification(config::Section, const ScorerData&) {
  return std::make_shared<Classification>();
}

}  // namespace tessera::objectives
