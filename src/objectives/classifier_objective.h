#pragma once
// What objectives of classifiers have in common: they read labels, ask for logits, and measure prec@1 of the own label; of
// several labels, whether the class with the largest logit is one of them.

#include "objectives/objective.h"

namespace tessera::objectives {

class ClassifierObjective : public Objective {
 public:
  // `classes` of the data; `multi_hot`: Inputs::multi_hot.
  explicit ClassifierObjective(int64_t classes, int64_t multi_hot = 0) : classes_(classes) {
    inputs_.labels = true;
    inputs_.multi_hot = multi_hot;
  }

  const Inputs& inputs() const override { return inputs_; }
  void check(const models::Model& model, const config::Section& section) const override;
  // {logits [B, classes]}.
  ir::Values outputs(const models::Model& model, const nn::Scope& scope, const Batch& batch) const override;
  std::vector<std::string> metrics() const override { return {"prec@1"}; }
  ir::Value metric(size_t index, const ir::Values& outputs, const Batch& batch) const override;

 protected:
  int64_t classes() const { return classes_; }

 private:
  int64_t classes_;
  Inputs inputs_;
};

// What a target holds at the label and at every other class.
struct Smoothing {
  double on = 1, off = 0;
};
// Of a share s of the target that is spread over all classes: 1 - s + s / C and s / C, as timm and torch do; or over all but
// the label's: 1 - s and s / (C - 1), as big_vision does.
Smoothing spread_over_all(double share, int64_t classes);
Smoothing spread_over_others(double share, int64_t classes);
// The one of these that `style` (timm or big_vision) names. Usage Errors at keys of `section` for another one and for a share
// outside [0, 1).
Smoothing read_smoothing(const config::Section& section, double label_smoothing, const std::string& style, int64_t classes);

// The targets of a batch, f32 [B, classes]; where rows are mixed, of both rows' labels, each by its share: timm's mixup_target,
// which for several labels of a row has `on` at each of them.
ir::Value class_targets(const Batch& batch, int64_t classes, const Smoothing& smoothing);

// A model that is known to be one.
const models::Classifier& as_classifier(const models::Model& model);
// Its logits.
ir::Value classify(const models::Model& model, const nn::Scope& scope, ir::Value images);

// 1 where the class with the largest logit is one of the labels, u8 [B, classes], else 0: f32 [B]. Logits that are not finite
// count as wrong.
ir::Value top_is_label(ir::Value logits, ir::Value labels);

// 1 where the label is among the `k` largest logits, else 0: f32 [B]. Of equal logits the lower class counts first. k is cut at
// the number of classes. Logits that are not finite count as wrong.
ir::Value top_k_correct(ir::Value logits, ir::Value labels, int64_t k);

}  // namespace tessera::objectives
