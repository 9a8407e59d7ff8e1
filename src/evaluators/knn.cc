#include <fmt/format.h>

#include "evaluators/evaluator.h"
#include "evaluators/feature_evaluator.h"
#include "metrics/neighbours.h"

namespace tessera::evaluators {
namespace {

struct KnnOptions {
  int64_t k = 20;
  double temperature = 0.07;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("k", k, "neighbours that vote");
    field("temperature", temperature, "a vote counts exp(cosine similarity / temperature), as DINO's; 0: each counts 1");
  }
};

class Knn final : public FeatureEvaluator {
 public:
  Knn(const metrics::NeighbourOptions& options, const config::Section& section, const EvaluatorData& available)
      : FeatureEvaluator(section, available), options_(options) {}
  std::vector<ScoreKind> score_kinds() const override { return {{"prec@1", true}}; }

 private:
  std::vector<Predictions> predictions(const metrics::LabelledFeatures& train, const metrics::Features& test) const override {
    return {{metrics::neighbour_classes(train, test, static_cast<int64_t>(class_names().size()), options_)}};
  }

  metrics::NeighbourOptions options_;
};

// `prec@1` (metrics/neighbours.h).
std::shared_ptr<const Evaluator> make_knn(config::Section section, const EvaluatorData& available) {
  KnnOptions options;
  section.bind_part(options);
  if (options.k < 1) section.fail("k", fmt::format("must be at least 1, and is {}", options.k));
  if (!(options.temperature >= 0)) {
    section.fail("temperature", fmt::format("must not be negative, and is {}", options.temperature));
  }
  return std::make_shared<Knn>(metrics::NeighbourOptions{options.k, options.temperature}, section, available);
}

}  // namespace

const EvaluatorKind kKnn = {"knn", "prec@1 by the k nearest neighbours among the features of eval.NAME.train", make_knn,
                            config::keys_of<KnnOptions>};

}  // namespace tessera::evaluators
