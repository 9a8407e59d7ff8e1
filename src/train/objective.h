#pragma once
// What is minimised and counted: softmax cross-entropy over classes, in f32 whatever the compute dtype.

#include <cstdint>
#include <string>

#include "config/section.h"
#include "ir/graph.h"

namespace tessera::train {

struct ObjectiveOptions {
  double label_smoothing = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("label_smoothing", label_smoothing, "share s of the target spread over all classes, as torch and timm do");
  }
};

// Reads the recipe's `objective` section: name = "softmax" and its options.
ObjectiveOptions read_objective(config::Section section);

// (1 - s) (-log p[label]) + s mean(-log p) for each example (timm's LabelSmoothingCrossEntropy, torch's cross_entropy).
// logits [B, classes] of any float dtype, labels i32 [B] -> f32 [B].
ir::Value softmax_cross_entropy(ir::Value logits, ir::Value labels, double label_smoothing = 0);

// 1 where the label is among the `k` largest logits, else 0: f32 [B]. Of equal logits the lower class counts first. k is cut at
// the number of classes. Logits that are not finite count as wrong.
ir::Value top_k_correct(ir::Value logits, ir::Value labels, int64_t k);

}  // namespace tessera::train
