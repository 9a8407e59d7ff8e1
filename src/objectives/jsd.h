#pragma once
// Cross-entropy of clean images, and how much the answers to augmented views of them differ (Hendrycks et al. 2020, AugMix).

#include "objectives/classifier_objective.h"

namespace tessera::objectives {

// The defaults are timm's.
struct JsdOptions {
  double alpha = 12, label_smoothing = 0.1;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("alpha", alpha, "factor on the divergence of an image's views");
    field("label_smoothing", label_smoothing, "share s of the target spread over all classes");
  }
};

// The factory of objectives.def; data.pp makes the views (split). Metric: prec@1 over all views. Batch norm takes
// its statistics of all views together, unless model.norm_splits gives each its own.
std::shared_ptr<const Objective> make_jsd(config::Section section, const DataInputs& available);

// Smoothed cross-entropy of view 0 + alpha / views sum_v KL(p_v || mean of all p): timm's JsdCrossEntropy. logits [views * B,
// classes] of any float dtype, labels i32 [B] -> f32 [B].
ir::Value jsd_cross_entropy(ir::Value logits, ir::Value labels, int64_t views, double alpha, const Smoothing& smoothing);

}  // namespace tessera::objectives
