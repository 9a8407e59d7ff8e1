#pragma once
// Softmax cross-entropy over classes, in f32 whatever the compute dtype.

#include "objectives/objective.h"

namespace tessera::objectives {

struct SoftmaxOptions {
  double label_smoothing = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("label_smoothing", label_smoothing, "share s of the target spread over all classes, as torch and timm do");
  }
};

// The factory of objectives.def. Where rows are mixed, the loss is that of both labels, each by its share. Metric: prec@1, of
// the own label.
std::shared_ptr<const Objective> make_softmax(config::Section section, const DataInputs& data);

// (1 - s) (-log p[label]) + s mean(-log p) for each example (timm's LabelSmoothingCrossEntropy, torch's cross_entropy).
// logits [B, classes] of any float dtype, labels i32 [B] -> f32 [B].
ir::Value softmax_cross_entropy(ir::Value logits, ir::Value labels, double label_smoothing = 0);

// 1 where the label is among the `k` largest logits, else 0: f32 [B]. Of equal logits the lower class counts first. k is cut at
// the number of classes. Logits that are not finite count as wrong.
ir::Value top_k_correct(ir::Value logits, ir::Value labels, int64_t k);

// The logits of a model that is known to be a Classifier.
ir::Value classify(const models::Model& model, const nn::Scope& scope, ir::Value images);

}  // namespace tessera::objectives
