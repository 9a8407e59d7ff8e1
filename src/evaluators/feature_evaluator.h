#pragma once
// Evaluators that learn to classify a model's features from labelled examples of their own, [eval.NAME].train, and are tested
// on the evaluator's data. Any data with classes will do: they need not be those that the model was trained on. The features of
// both sets are kept in memory: 4 bytes a feature, and while a score is computed twice that again.

#include "evaluators/evaluator.h"

namespace tessera::evaluators {

class FeatureEvaluator : public Evaluator {
 public:
  // A usage Error at `data` where that has no classes.
  FeatureEvaluator(const config::Section& section, const EvaluatorData& available);

  void check(const models::Model& model, const config::Section& section) const override;
  std::vector<std::string> further_sets() const override { return {"train"}; }
  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  bool reads_one_label() const override { return true; }
  std::vector<Column> columns(size_t) const override { return {{"features", 0}}; }
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    return {model.features(scope, batch.images)};
  }
  // Each score is the share of the data's examples that predictions() are right about.
  Outcome outcome(std::vector<Rows> sets) const override;

 protected:
  const std::vector<std::string>& class_names() const { return class_names_; }
  // For each score the classes that are given to `test`, by one classifier or several: the score is the mean of theirs.
  using Predictions = std::vector<std::vector<int32_t>>;
  virtual std::vector<Predictions> predictions(const metrics::LabelledFeatures& train, const metrics::Features& test) const = 0;

 private:
  std::vector<std::string> class_names_;
  objectives::Inputs inputs_;
};

}  // namespace tessera::evaluators
