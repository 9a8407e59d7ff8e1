#include "objectives/feature_scorer.h"

#include "base/error.h"

namespace tessera::objectives {

FeatureScorer::FeatureScorer(const config::Section& section, const ScorerData& data) : class_names_(data.class_names) {
  if (class_names_.empty()) section.fail("data", "has no labels, which this evaluator needs");
}

void FeatureScorer::check(const models::Model& model, const config::Section& section) const {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  nn::ParamStore store(graph);
  if (model.features(nn::Scope(store, {}), models::blank_images(model.input())).rank() == 2) return;
  section.fail("type", "needs one row of features an image, and the model keeps every token's", "model.pool = gap, map or tok");
}

Outcome FeatureScorer::outcome(std::vector<Rows> sets) const {
  const Rows& test = sets[0];
  const std::vector<Predictions> all = predictions(sets[1], test.features);
  const std::vector<ScoreKind> kinds = scores();
  Outcome out;
  for (size_t i = 0; i < all.size(); ++i) {
    double sum = 0;
    for (const std::vector<int32_t>& predicted : all[i]) sum += metrics::share_equal(predicted, test.labels);
    const auto width = static_cast<int64_t>(all[i].size());
    out.figures.push_back(sum / static_cast<double>(width));
    out.columns.push_back({all.size() == 1 ? "predicted" : kinds[i].name, width, true});
    out.said.width += width;
  }
  for (size_t row = 0; row < test.labels.size(); ++row) {
    for (const Predictions& of_score : all) {
      for (const std::vector<int32_t>& predicted : of_score) out.said.values.push_back(static_cast<float>(predicted[row]));
    }
  }
  return out;
}

}  // namespace tessera::objectives
