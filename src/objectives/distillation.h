#pragma once
// Training with a second model's answers (Hinton et al. 2015; DeiT, Touvron et al. 2021).

#include "objectives/classifier_objective.h"

namespace tessera::objectives {

struct DistillationOptions {
  std::string teacher, weights = "raw", kind = "soft";
  double temperature = 1, alpha = 0.5;
  double label_smoothing = 0;
  std::string style = "timm";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("teacher", teacher,
          "a workdir, a checkpoint, or a directory of timm's or Hugging Face's; a classifier of the same images and classes");
    field("weights", weights, "of a run: raw, or average where it kept one");
    field("kind", kind, "soft: the teacher's probabilities; or hard: the class it finds likeliest");
    field("temperature", temperature, "that both models' logits are divided by, for soft");
    field("alpha", alpha, "share of the teacher in the loss; the rest is the cross-entropy of the labels");
    field("label_smoothing", label_smoothing, "share s of the label's target that is spread over other classes");
    field("style", style, "of smoothing: timm (and torch), over all classes, or big_vision, over all but the label's");
  }
};

// The factory of objectives.def: (1 - alpha) cross-entropy + alpha distillation, timm's LogitDistillationTask with
// task_loss_weight = 1 - alpha, where a model has one head, which learns from both. Of a model with a distillation token
// (vit's `distilled`) the class head learns from the labels and that token's from the teacher: timm's TokenDistillationTask.
// Metrics: prec@1 of the own label (the class head's), and distillation, that part of the loss.
std::shared_ptr<const Objective> make_distillation(config::Section section, const DataInputs& available);

// t^2 KL(softmax(teacher / t) || softmax(logits / t)) for each example: timm's kl_div with batchmean, big_vision's
// evaluators/proj/distill/distance.py, kl. Both f32 [B, classes] -> f32 [B].
ir::Value soft_distillation(ir::Value logits, ir::Value teacher, double temperature);
// Cross-entropy of the class that the teacher finds likeliest.
ir::Value hard_distillation(ir::Value logits, ir::Value teacher);

}  // namespace tessera::objectives
