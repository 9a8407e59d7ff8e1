#include "evaluators/feature_evaluator.h"

#include <utility>

#include "base/error.h"

namespace tessera::evaluators {

FeatureEvaluator::FeatureEvaluator(const config::Section& section, const EvaluatorData& available)
    : class_names_(available.class_names) {
  if (class_names_.empty()) section.fail("data", "has no labels, which this evaluator needs");
}

void FeatureEvaluator::check(const models::Model& model, const config::Section& section) const {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  if (model.features(nn::Scope(store, {}), models::blank_images(model.input())).rank() == 2) return;
  section.fail("type", "needs one row of features an image, and the model keeps every token's", "model.pool = gap, map or tok");
}

Outcome FeatureEvaluator::outcome(std::vector<Rows> sets) const {
  Rows& test = sets[0];
  const std::vector<Predictions> all = predictions(sets[1], test.features);
  const std::vector<ScoreKind> kinds = score_kinds();
  Outcome out;
  for (size_t i = 0; i < all.size(); ++i) {
    double sum = 0;
    for (const std::vector<int32_t>& predicted : all[i]) sum += metrics::share_equal(predicted, test.labels);
    const auto width = static_cast<int64_t>(all[i].size());
    out.scores.push_back(sum / static_cast<double>(width));
    out.columns.push_back({all.size() == 1 ? "predicted" : kinds[i].name, width, true});
    out.predictions.width += width;
  }
  for (size_t row = 0; row < test.labels.size(); ++row) {
    for (const Predictions& of_score : all) {
      for (const std::vector<int32_t>& predicted : of_score)
        out.predictions.values.push_back(static_cast<float>(predicted[row]));
    }
  }
  out.features = std::move(test.features);
  return out;
}

}  // namespace tessera::evaluators
