#include "evaluators/knn.h"

#include <fmt/format.h>

#include "evaluators/feature_evaluator.h"
#include "metrics/neighbours.h"

namespace tessera::evaluators {
namespace {

class Knn final : public FeatureEvaluator {
 public:
  Knn(const metrics::NeighbourOptions& options, const config::Section& section, const EvaluatorData& data)
      : FeatureEvaluator(section, data), options_(options) {}
  std::vector<ScoreKind> score_kinds() const override { return {{"prec@1", true}}; }

 private:
  std::vector<Predictions> predictions(const metrics::LabelledFeatures& train, const metrics::Features& test) const override {
    return {{metrics::neighbour_classes(train, test, static_cast<int64_t>(class_names().size()), options_)}};
  }

  metrics::NeighbourOptions options_;
};

}  // namespace

std::shared_ptr<const Evaluator> make_knn(config::Section section, const EvaluatorData& data) {
  KnnOptions options;
  section.bind_part(options);
  if (options.k < 1) section.fail("k", fmt::format("must be at least 1, and is {}", options.k));
  if (!(options.temperature >= 0)) {
    section.fail("temperature", fmt::format("must not be negative, and is {}", options.temperature));
  }
  return std::make_shared<Knn>(metrics::NeighbourOptions{options.k, options.temperature}, section, data);
}

const EvaluatorKind kKnn = {"knn", "prec@1 by the k nearest neighbours among the features of eval.NAME.train", make_knn,
                            config::keys_of<KnnOptions>};

}  // namespace tessera::evaluators
