#pragma once
// Softmax cross-entropy over classes, in f32 whatever the compute dtype.

#include "objectives/class_weights.h"
#include "objectives/classifier_objective.h"

namespace tessera::objectives {

struct SoftmaxOptions {
  double label_smoothing = 0;
  std::string style = "timm";
  std::optional<config::NumbersOrText> class_weights;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("label_smoothing", label_smoothing, "share s of the target that is spread over other classes");
    field("style", style, "of smoothing: timm (and torch), over all classes, or big_vision, over all but the label's");
    field("class_weights", class_weights, kClassWeightsHelp);
  }
};

// The factory of objectives.def. Where rows are mixed, the loss is that of both labels, each by its share: timm's
// SoftTargetCrossEntropy of mixed targets. With class weights it is torch's CrossEntropyLoss(weight=, label_smoothing=): the
// sum over the batch is divided by the sum of the labels' weights, and where rows are mixed by the number of rows.
std::shared_ptr<const Objective> make_softmax(config::Section section, const DataInputs& available);

// -sum_c t_c log p_c for each example, t as smoothing says: timm's LabelSmoothingCrossEntropy, torch's cross_entropy,
// big_vision's softmax_xent. logits [B, classes] of any float dtype, labels i32 [B] -> f32 [B]. `weights`: of each class, a
// factor of -log p_c; null: all 1.
ir::Value softmax_cross_entropy(ir::Value logits, ir::Value labels, const Smoothing& smoothing = {}, ir::Value weights = {});
// The same of a batch, with both labels where rows are mixed.
ir::Value softmax_cross_entropy(ir::Value logits, const Batch& batch, const Smoothing& smoothing, ir::Value weights = {});

}  // namespace tessera::objectives
