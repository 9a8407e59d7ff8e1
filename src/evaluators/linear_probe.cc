#include "metrics/linear_probe.h"

#include <fmt/format.h>

#include "base/log.h"
#include "evaluators/evaluator.h"
#include "evaluators/feature_evaluator.h"

namespace tessera::evaluators {
namespace {

struct LinearProbeOptions {
  double c = 1;
  bool standardise = true;
  int64_t max_iterations = 1000;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("c", c, "weight of the cross-entropy against |W|^2 / 2: scikit-learn's LogisticRegression(C=c)");
    field("standardise", standardise, "features to mean 0 and standard deviation 1 over train");
    field("max_iterations", max_iterations, "of L-BFGS");
  }
};

class LinearProbe final : public FeatureEvaluator {
 public:
  LinearProbe(const metrics::LinearProbeOptions& options, const config::Section& section, const EvaluatorData& available)
      : FeatureEvaluator(section, available), options_(options), key_(section.path("max_iterations")) {}
  std::vector<ScoreKind> score_kinds() const override { return {{"prec@1", true}}; }

 private:
  std::vector<Predictions> predictions(const metrics::LabelledFeatures& train, const metrics::Features& test) const override {
    const metrics::LinearProbe probe = metrics::fit_linear_probe(train, static_cast<int64_t>(class_names().size()), options_);
    if (!probe.converged) {
      log_warning(fmt::format("the linear probe did not converge in {} iterations (`{}`)", probe.iterations, key_));
    }
    return {{metrics::probe_classes(probe, test)}};
  }

  metrics::LinearProbeOptions options_;
  std::string key_;
};

// `prec@1` (metrics/linear_probe.h). Warns where the fit did not converge.
std::shared_ptr<const Evaluator> make_linear_probe(config::Section section, const EvaluatorData& available) {
  LinearProbeOptions options;
  section.bind_part(options);
  if (!(options.c > 0)) section.fail("c", fmt::format("must be above 0, and is {}", options.c));
  if (options.max_iterations < 1) {
    section.fail("max_iterations", fmt::format("must be at least 1, and is {}", options.max_iterations));
  }
  const metrics::LinearProbeOptions fit{options.c, options.standardise, static_cast<int>(options.max_iterations)};
  return std::make_shared<LinearProbe>(fit, section, available);
}

}  // namespace

const EvaluatorKind kLinearProbe = {"linear_probe", "prec@1 of a logistic regression on the features of eval.NAME.train",
                                    make_linear_probe, config::keys_of<LinearProbeOptions>};

}  // namespace tessera::evaluators
