#pragma once
// Binary cross-entropy: each class by itself, whether it is the image's or not.

#include "objectives/class_weights.h"
#include "objectives/classifier_objective.h"

namespace tessera::objectives {

struct SigmoidOptions {
  double on = 1, off = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("on", on, "the target of the label's class");
    field("off", off, "the target of every other class");
  }
};

// The defaults are timm's.
struct BceOptions {
  double label_smoothing = 0.1;
  std::optional<double> target_threshold;
  bool sum_classes = false;
  config::NumbersOrText pos_weight = 1.0;
  std::optional<config::NumbersOrText> class_weights;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("label_smoothing", label_smoothing,
          "share s of the target spread over all classes; 0 where images may have several labels, unless it is given");
    field("target_threshold", target_threshold, "targets above it become 1, all others 0; after smoothing and mixing");
    field("sum_classes", sum_classes, "the sum over classes instead of their mean");
    field("pos_weight", pos_weight,
          "factor on what a target of 1 costs; a list or a file for one of each class, or balanced: (n - count) / count");
    field("class_weights", class_weights, kClassWeightsHelp);
  }
};

// Factories of objectives.def. big_vision's utils.sigmoid_xent, summed over classes, of targets as its onehot(on=, off=) makes
// them; and timm's BinaryCrossEntropy, with its weight= as class_weights. Where rows are mixed, targets are. Labels may be
// multi-hot: the targets are then timm's dense ones.
std::shared_ptr<const Objective> make_sigmoid(config::Section section, const DataInputs& available);
std::shared_ptr<const Objective> make_bce(config::Section section, const DataInputs& available);

// -(pos_weight t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))) for each element: logits of any float dtype, targets f32 -> f32.
// pos_weight: null, or f32 [classes].
ir::Value binary_cross_entropy(ir::Value logits, ir::Value targets, ir::Value pos_weight = {});

}  // namespace tessera::objectives
