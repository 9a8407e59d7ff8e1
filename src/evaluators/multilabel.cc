#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluators/evaluator.h"
#include "evaluators/tta.h"
#include "ir/ops.h"
#include "metrics/multi_label.h"
#include "objectives/binary.h"

namespace tessera::evaluators {
namespace {

using nlohmann::ordered_json;

struct MultilabelOptions {
  double threshold = 0.5;
  bool per_class = false;
  std::string tta = "none";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("threshold", threshold, "an image is given the classes whose probability is above it, for f1_micro and f1_macro");
    field("per_class", per_class, "write the scores of each class to <workdir>/evals/NAME_<step>.json");
    field("tta", tta, kTtaHelp);
  }
};

// A score that is defined.
ordered_json defined(double value) { return std::isnan(value) ? ordered_json() : ordered_json(value); }

std::string class_table(const metrics::MultiLabelScores& scores, double threshold, const std::vector<std::string>& names) {
  ordered_json json = {{"threshold", threshold}};
  for (size_t c = 0; c < names.size(); ++c) {
    const metrics::ClassScores& one = scores.classes()[c];
    json["classes"].push_back({{"class", names[c]},
                               {"examples", one.examples},
                               {"average_precision", defined(one.ranking.average_precision)},
                               {"roc_auc", defined(one.ranking.auc)},
                               {"precision", one.precision()},
                               {"recall", one.recall()},
                               {"f1", one.f1()}});
  }
  return json.dump();
}

class Multilabel final : public Evaluator {
 public:
  Multilabel(const MultilabelOptions& options, const EvaluatorData& available, Tta tta)
      : options_(options), names_(available.class_names), tta_(tta) {
    inputs_.labels = true;
    inputs_.multi_hot = available.inputs.classes;
  }

  void check(const models::Model& model, const config::Section& section) const override {
    if (model.classifier() != nullptr) return;
    section.fail("type", "is multilabel, and the model is no classifier", "take another type of evaluator");
  }
  bool cuts_crops() const override { return evaluators::cuts_crops(tta_); }
  std::vector<ScoreKind> score_kinds() const override {
    return {{"loss"}, {"mAP", true}, {"roc_auc", true}, {"f1_micro", true}, {"f1_macro", true}};
  }
  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  std::vector<Column> columns(size_t) const override { return {{"loss"}, {"prob", std::ssize(names_)}}; }
  // Logits: outcome() turns them into probabilities, since in f32 those near 1 are all the same.
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const ir::Value logits = ir::convert(averaged_logits(model, scope, batch.images, tta_), DType::kF32);
    const ir::Value targets = ir::convert(batch.labels, DType::kF32);
    return {ir::mean(objectives::binary_cross_entropy(logits, targets), {1}), logits};
  }

  Outcome outcome(std::vector<Rows> sets) const override {
    Rows& rows = sets[0];
    metrics::Features logits{std::ssize(names_), {}};
    double loss = 0;
    for (int64_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> row = rows.features.row(i);
      loss += double{row[0]};
      logits.values.insert(logits.values.end(), row.begin() + 1, row.end());
    }
    const metrics::MultiLabelScores scores(logits, rows.multi_hot, options_.threshold);
    Outcome out{{loss / static_cast<double>(rows.size()), scores.mean_average_precision(), scores.auc(), scores.f1_micro(),
                 scores.f1_macro()},
                columns(0),
                std::move(rows.features),
                {},
                {}};
    const auto width = static_cast<size_t>(out.predictions.width);
    for (size_t i = 0; i < out.predictions.values.size(); ++i) {
      float& value = out.predictions.values[i];
      if (i % width > 0) value = static_cast<float>(metrics::sigmoid(double{value}));
    }
    if (options_.per_class) out.details = class_table(scores, options_.threshold, names_);
    return out;
  }

 private:
  MultilabelOptions options_;
  std::vector<std::string> names_;
  Tta tta_;
  objectives::Inputs inputs_;
};

// `loss`, the mean over images and classes of the binary cross-entropy, natural logarithm; and metrics/multi_label.h.
std::shared_ptr<const Evaluator> make_multilabel(config::Section section, const EvaluatorData& available) {
  MultilabelOptions options;
  section.bind_part(options);
  if (!(options.threshold > 0 && options.threshold < 1)) {
    section.fail("threshold", fmt::format("must lie between 0 and 1, and is {}", options.threshold));
  }
  return std::make_shared<Multilabel>(options, available, read_tta(section, options.tta));
}

}  // namespace

const EvaluatorKind kMultilabel = {"multilabel", "mAP, AUC, F1 and loss of images with several labels", make_multilabel,
                                   config::keys_of<MultilabelOptions>};

}  // namespace tessera::evaluators
