#include "metrics/few_shot.h"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/evaluator.h"
#include "evaluators/feature_evaluator.h"

namespace tessera::evaluators {
namespace {

struct FewShotOptions {
  std::vector<int64_t> shots = {1, 5, 10, 25};
  double l2 = 1024;
  int64_t seeds = 3;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("shots", shots, "examples of each class to learn from: a score for each number");
    field("l2", l2, "of the least squares' regularisation");
    field("seeds", seeds, "draws of the examples, 0, 1, …; a score is the mean over them");
  }
};

class FewShot final : public FeatureEvaluator {
 public:
  FewShot(FewShotOptions options, const config::Section& section, const EvaluatorData& available)
      : FeatureEvaluator(section, available), options_(std::move(options)), where_(section.place("train")) {}
  std::vector<ScoreKind> score_kinds() const override {
    std::vector<ScoreKind> kinds;
    for (const int64_t shots : options_.shots) kinds.push_back({fmt::format("{}shot", shots), true});
    return kinds;
  }
  int64_t least_of_a_class(size_t set) const override { return set == 1 ? *std::ranges::max_element(options_.shots) : 0; }

 private:
  std::vector<Predictions> predictions(const metrics::LabelledFeatures& train, const metrics::Features& test) const override {
    std::vector<Predictions> all;
    for (const int64_t shots : options_.shots) {
      all.emplace_back();
      for (int64_t seed = 0; seed < options_.seeds; ++seed) {
        const std::vector<int64_t> rows =
            metrics::draw_shots(train.labels, class_names(), shots, static_cast<uint64_t>(seed), where_);
        const auto classes = static_cast<int64_t>(class_names().size());
        all.back().push_back(metrics::least_squares_classes(metrics::take_rows(train, rows), test, classes, options_.l2));
      }
    }
    return all;
  }

  FewShotOptions options_;
  std::string where_;
};

// `1shot`, `5shot`, … (metrics/few_shot.h).
std::shared_ptr<const Evaluator> make_few_shot(config::Section section, const EvaluatorData& available) {
  FewShotOptions options;
  section.bind_part(options);
  if (options.shots.empty()) section.fail("shots", "names no number of examples", "for example [1, 5, 10]");
  for (const int64_t shots : options.shots) {
    if (shots < 1) section.fail("shots", fmt::format("must be at least 1 each, and one is {}", shots));
  }
  if (!(options.l2 > 0)) section.fail("l2", fmt::format("must be above 0, and is {}", options.l2));
  section.check_range("seeds", options.seeds, 1, 1000);
  return std::make_shared<FewShot>(std::move(options), section, available);
}

}  // namespace

const EvaluatorKind kFewShot = {
    "few_shot", "1shot, 5shot, …: least squares on the features of so many images of each class of eval.NAME.train",
    make_few_shot, config::keys_of<FewShotOptions>};

}  // namespace tessera::evaluators
