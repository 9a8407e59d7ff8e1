#include "objectives/classifier_objective.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"

namespace tessera::objectives {

using ir::Value;
using ir::Values;

void ClassifierObjective::check(const models::Model& model, const config::Section& section) const {
  const auto* classifier = model.classifier();
  if (classifier == nullptr) {
    section.fail("name", "is no classifier, which the objective trains", "take vit, or another objective");
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

Values ClassifierObjective::outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const {
  return {classify(model, scope, batch.images)};
}

Value ClassifierObjective::metric(size_t, const Values& outputs, const Batch& batch) const {
  return inputs_.multi_hot > 0 ? top_is_label(outputs[0], batch.labels) : top_k_correct(outputs[0], batch.labels, 1);
}

Smoothing spread_over_all(double share, int64_t classes) {
  const double off = share / static_cast<double>(classes);
  return {1 - share + off, off};
}

Smoothing spread_over_others(double share, int64_t classes) {
  return share == 0 ? Smoothing{} : Smoothing{1 - share, share / static_cast<double>(classes - 1)};
}

Smoothing read_smoothing(const config::Section& section, double label_smoothing, const std::string& style, int64_t classes) {
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    section.fail("label_smoothing", fmt::format("must lie in [0, 1), and is {}", label_smoothing));
  }
  const bool over_others = style == "big_vision";
  if (!over_others && style != "timm") {
    section.fail("style", fmt::format("is \"{}\"", style), suggest_name(style, {"timm", "big_vision"}));
  }
  if (!over_others) return spread_over_all(label_smoothing, classes);
  if (classes < 2 && label_smoothing > 0) {
    section.fail("label_smoothing", fmt::format("is {}, and there is no other class", label_smoothing), "leave it out");
  }
  return spread_over_others(label_smoothing, classes);
}

Value class_targets(const Batch& batch, int64_t classes, const Smoothing& smoothing) {
  const auto of = [&](Value labels) {
    const Value ones = labels.rank() == 2 ? ir::convert(labels, DType::kF32) : ir::one_hot(labels, classes, DType::kF32);
    return ones * (smoothing.on - smoothing.off) + smoothing.off;
  };
  const Value own = of(batch.labels);
  if (!batch.partner_labels) return own;
  const Value share = ir::expand_dims(batch.own_share, 1);
  return own * share + of(batch.partner_labels) * (1.0 - share);
}

const models::Classifier& as_classifier(const models::Model& model) {
  const auto* classifier = model.classifier();
  TESSERA_CHECK(classifier != nullptr, "{} is no classifier", model.describe());
  return *classifier;
}

Value classify(const models::Model& model, const nn::Scope& scope, Value images) {
  return as_classifier(model).logits(scope, images);
}

Value top_is_label(Value logits, Value labels) {
  const Value x = ir::convert(logits, DType::kF32);
  const Value top = ir::one_hot(ir::argmax(x, 1), x.dim(1), DType::kF32);
  const Value correct = ir::sum(top * ir::convert(labels, DType::kF32), {1});
  return correct * ir::convert(ir::is_finite(ir::sum(x, {1})), DType::kF32);
}

Value top_k_correct(Value logits, Value labels, int64_t k) {
  // The label's place is how many classes stand before it, so that no sort is needed.
  const Value x = ir::convert(logits, DType::kF32);
  const Value classes = ir::iota({DType::kI32, x.dims()}, 1);
  const Value label = ir::expand_dims(labels, 1);
  const Value own = ir::sum(ir::select(ir::compare(ir::Compare::kEq, classes, label), x, ir::zeros_like(x)), {1}, true);
  const Value tie = ir::logical_and(ir::compare(ir::Compare::kEq, x, own), ir::compare(ir::Compare::kLt, classes, label));
  // XLA may compute x twice, rounded in two ways: the label's own column would then stand before itself.
  const Value greater = ir::logical_and(ir::compare(ir::Compare::kGt, x, own), ir::compare(ir::Compare::kNe, classes, label));
  const Value before = ir::logical_or(greater, tie);
  const Value place = ir::sum(ir::convert(before, DType::kF32), {1});
  const Value correct = ir::compare(ir::Compare::kLt, place, ir::constant(static_cast<double>(k)));
  return ir::convert(ir::logical_and(correct, ir::is_finite(ir::sum(x, {1}))), DType::kF32);
}

}  // namespace tessera::objectives
