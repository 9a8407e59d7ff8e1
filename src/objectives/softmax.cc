#include "objectives/softmax.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

namespace {

class Softmax final : public Objective {
 public:
  Softmax(const SoftmaxOptions& options, int64_t classes) : options_(options), classes_(classes) { inputs_.labels = true; }

  const Inputs& inputs() const override { return inputs_; }

  void check(const models::Model& model, const config::Section& section) const override {
    const auto* classifier = dynamic_cast<const models::Classifier*>(&model);
    if (classifier == nullptr) {
      section.fail("name", "is no classifier, which the objective softmax trains", "take vit, or another objective");
    }
    if (model.input().classes != classes_) {
      section.fail("classes", fmt::format("is {}, and the training data has {}", model.input().classes, classes_),
                   "leave model.classes out: the data says it");
    }
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    nn::ParamStore store(graph);
    if (classifier->trace(nn::Scope(store, {})).rank() != 2) {
      section.fail("pool", "keeps every token, so that there is no one answer to an image",
                   "use gap, map or tok to train a classifier");
    }
  }

  Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override {
    return {classify(model, scope, batch.images)};
  }

  Value loss(const Values& outputs, const Batch& batch) const override {
    const Value own = softmax_cross_entropy(outputs[0], batch.labels, options_.label_smoothing);
    if (!batch.partner_labels) return own;
    const Value partner = softmax_cross_entropy(outputs[0], batch.partner_labels, options_.label_smoothing);
    return own * batch.own_share + partner * (1.0 - batch.own_share);
  }

  std::vector<std::string> metrics() const override { return {"prec@1"}; }
  Value metric(size_t, const Values& outputs, const Batch& batch) const override {
    return top_k_correct(outputs[0], batch.labels, 1);
  }

 private:
  SoftmaxOptions options_;
  int64_t classes_;
  Inputs inputs_;
};

}  // namespace

std::shared_ptr<const Objective> make_softmax(config::Section section, const DataInputs& data) {
  SoftmaxOptions options;
  section.bind(options);
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    section.fail("label_smoothing", fmt::format("must lie in [0, 1), and is {}", options.label_smoothing));
  }
  return std::make_shared<Softmax>(options, data.classes);
}

Value classify(const models::Model& model, const nn::Scope& scope, Value images) {
  const auto* classifier = dynamic_cast<const models::Classifier*>(&model);
  TESSERA_CHECK(classifier != nullptr, "{} is no classifier", model.describe());
  return classifier->logits(scope, images);
}

Value softmax_cross_entropy(Value logits, Value labels, double label_smoothing) {
  const Value log_p = ir::log_softmax(ir::convert(logits, DType::kF32));
  const Value target = ir::one_hot(labels, log_p.dim(-1), DType::kF32);
  const Value loss = -ir::sum(log_p * target, {1});
  if (label_smoothing == 0) return loss;
  return loss * (1 - label_smoothing) - ir::mean(log_p, {1}) * label_smoothing;
}

Value top_k_correct(Value logits, Value labels, int64_t k) {
  // The label's place is how many classes stand before it, so that no sort is needed.
  const Value x = ir::convert(logits, DType::kF32);
  const Value target = ir::one_hot(labels, x.dim(-1), DType::kF32);
  const Value own =
      ir::sum(ir::select(ir::compare(ir::Compare::kNe, target, ir::zeros_like(target)), x, ir::zeros_like(x)), {1}, true);
  const Value classes = ir::iota({DType::kI32, x.dims()}, 1);
  const Value column = ir::expand_dims(labels, 1);
  const Value tie = ir::logical_and(ir::compare(ir::Compare::kEq, x, own), ir::compare(ir::Compare::kLt, classes, column));
  const Value before = ir::logical_or(ir::compare(ir::Compare::kGt, x, own), tie);
  const Value place = ir::sum(ir::convert(before, DType::kF32), {1});
  const Value correct = ir::compare(ir::Compare::kLt, place, ir::constant(static_cast<double>(k)));
  return ir::convert(ir::logical_and(correct, ir::is_finite(ir::sum(x, {1}))), DType::kF32);
}

}  // namespace tessera::objectives
