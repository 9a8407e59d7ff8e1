#include "evaluators/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"
#include "evaluators/real_labels.h"
#include "ir/functions.h"
#include "metrics/class_tally.h"
#include "metrics/confusion.h"
#include "metrics/multi_label.h"
#include "objectives/softmax.h"

namespace tessera::evaluators {
namespace {

using nlohmann::ordered_json;

// Of `predicted` among the columns.
constexpr size_t kPredicted = 3;
// The classes among the predictions of an example.
constexpr int64_t kTop = 5;
// A matrix of more classes takes longer to read than to draw conclusions from: 128 MiB.
constexpr int64_t kMaxClasses = 4096;

// What `metrics` may name.
struct Metric {
  const char* name;
  double (metrics::ClassTally::*value)() const;  // null: one_vs_rest_auc()
};
constexpr Metric kMetrics[] = {{"f1_macro", &metrics::ClassTally::f1},
                               {"f1_weighted", &metrics::ClassTally::weighted_f1},
                               {"cohen_kappa", &metrics::ClassTally::kappa},
                               {"balanced_accuracy", &metrics::ClassTally::balanced_accuracy},
                               {"roc_auc", nullptr}};

// What others call the scores that need not be named.
constexpr std::string_view kAlways[] = {"accuracy", "acc", "top1", "top_1", "prec@1", "top5", "top_5", "prec@5", "loss"};

std::vector<Metric> find_metrics(const std::vector<std::string>& names, const config::Section& section) {
  std::vector<Metric> found;
  std::vector<std::string> known;
  for (const Metric& one : kMetrics) known.emplace_back(one.name);
  for (const std::string& name : names) {
    const auto* const one = std::ranges::find(kMetrics, name, &Metric::name);
    if (one == std::end(kMetrics)) {
      const bool always = std::ranges::count(kAlways, name) > 0;
      section.fail("metrics", fmt::format("has no `{}`", name),
                   always ? "prec@1 (accuracy), prec@5 and loss are there without being named" : suggest_name(name, known));
    }
    if (std::ranges::count(names, name) > 1) section.fail("metrics", fmt::format("has `{}` twice", name));
    found.push_back(*one);
  }
  return found;
}

// Of recall and precision, where there is any.
ordered_json share(double value) { return std::isnan(value) ? ordered_json() : ordered_json(value); }

std::string class_table(const metrics::Confusion& confusion, double balanced_accuracy, const std::vector<std::string>& names) {
  ordered_json json, matrix;
  json["balanced_accuracy"] = share(balanced_accuracy);
  for (int64_t c = 0; c < confusion.classes(); ++c) {
    json["classes"].push_back({{"class", names[static_cast<size_t>(c)]},
                               {"examples", confusion.of_class(c)},
                               {"recall", share(confusion.recall(c))},
                               {"precision", share(confusion.precision(c))}});
    ordered_json row = ordered_json::array();
    for (int64_t p = 0; p < confusion.classes(); ++p) row.push_back(confusion.at(c, p));
    matrix.push_back(std::move(row));
  }
  json["confusion"] = std::move(matrix);  // [label][predicted]
  return json.dump();
}

class Classification final : public Evaluator {
 public:
  Classification(const ClassificationOptions& options, const EvaluatorData& available, Tta tta)
      : tta_(tta), per_class_(options.per_class), predictions_(available.predictions), names_(available.class_names) {
    inputs_.labels = true;
  }
  void set_metrics(std::vector<Metric> metrics) {
    metrics_ = std::move(metrics);
    ranks_ = std::ranges::count(metrics_, nullptr, &Metric::value) > 0;
  }
  void set_real(std::vector<std::vector<int32_t>> real) { real_ = std::move(real); }

  void check(const models::Model& model, const config::Section& section) const override {
    if (model.classifier() != nullptr) return;
    section.fail("type", "is classification, and the model is no classifier", "take another type of evaluator");
  }
  bool cuts_crops() const override { return evaluators::cuts_crops(tta_); }
  std::vector<ScoreKind> score_kinds() const override {
    std::vector<ScoreKind> kinds = {{"loss"}, {"prec@1", true}, {"prec@5", true}};
    for (const Metric& metric : metrics_) kinds.push_back({metric.name, true});
    if (!real_.empty()) kinds.push_back({"real@1", true});
    return kinds;
  }

  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  std::vector<Column> columns(size_t) const override {
    std::vector<Column> columns = {{"loss"}, {"prec@1"}, {"prec@5"}, {"predicted", 1, true}};
    if (predictions_) columns.insert(columns.end(), {{"top", top(), true}, {"prob", top()}});
    if (ranks_) columns.push_back({"logits", std::ssize(names_)});
    return columns;
  }
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const ir::Value logits = averaged_logits(model, scope, batch.images, tta_);
    ir::Values columns = {objectives::softmax_cross_entropy(logits, batch.labels),
                          objectives::top_k_correct(logits, batch.labels, 1),
                          objectives::top_k_correct(logits, batch.labels, 5), ir::argmax(logits, 1)};
    if (predictions_) {
      const auto [probabilities, classes] = ir::top_k(ir::softmax(ir::convert(logits, DType::kF32)), top());
      columns.insert(columns.end(), {classes, probabilities});
    }
    if (ranks_) columns.push_back(logits);
    return columns;
  }

  Outcome outcome(std::vector<Rows> sets) const override {
    const std::vector<int64_t> samples = std::move(sets[0].samples);
    const std::vector<int32_t> labels = std::move(sets[0].labels);
    Outcome out = column_means(*this, std::move(sets[0].features));
    const auto predicted = [&](size_t i) {
      return static_cast<int32_t>(out.predictions.row(static_cast<int64_t>(i))[kPredicted]);
    };
    metrics::ClassTally tally(static_cast<int64_t>(names_.size()));
    if (per_class_ || !metrics_.empty()) {
      for (size_t i = 0; i < labels.size(); ++i) tally.add(labels[i], predicted(i));
    }
    for (const Metric& metric : metrics_)
      out.scores.push_back(metric.value ? (tally.*metric.value)() : metrics::one_vs_rest_auc(logits_of(out), labels));
    if (per_class_) {
      metrics::Confusion confusion(static_cast<int64_t>(names_.size()));
      for (size_t i = 0; i < labels.size(); ++i) confusion.add(labels[i], predicted(i));
      out.details = class_table(confusion, tally.balanced_accuracy(), names_);
    }
    if (!real_.empty()) {
      metrics::MultiLabelAccuracy real;
      for (size_t i = 0; i < samples.size(); ++i) real.add(real_[static_cast<size_t>(samples[i])], predicted(i));
      out.scores.push_back(real.value());
    }
    return out;
  }

 private:
  // The last columns, where the rows have them.
  metrics::Features logits_of(const Outcome& out) const {
    metrics::Features logits{std::ssize(names_), {}};
    for (int64_t i = 0; i < out.predictions.rows(); ++i) {
      const std::span<const float> row = out.predictions.row(i).last(names_.size());
      logits.values.insert(logits.values.end(), row.begin(), row.end());
    }
    return logits;
  }
  int64_t top() const { return std::min(kTop, static_cast<int64_t>(names_.size())); }

  objectives::Inputs inputs_;
  Tta tta_;
  bool per_class_, predictions_;
  bool ranks_ = false;  // a metric reads the logits of all classes
  std::vector<std::string> names_;
  std::vector<Metric> metrics_;
  std::vector<std::vector<int32_t>> real_;  // of each sample of the source
};

}  // namespace

std::shared_ptr<const Evaluator> make_classification(config::Section section, const EvaluatorData& available) {
  ClassificationOptions options;
  section.bind_part(options);
  if (options.per_class && available.inputs.classes > kMaxClasses) {
    section.fail("per_class",
                 fmt::format("asks for a matrix of {0} x {0}; {1} classes are the most", available.inputs.classes, kMaxClasses),
                 "save predictions instead");
  }
  auto evaluator = std::make_shared<Classification>(options, available, read_tta(section, options.tta));
  evaluator->set_metrics(find_metrics(options.metrics, section));
  if (!options.real.empty()) evaluator->set_real(read_real_labels(options.real, section, available));
  return evaluator;
}

const EvaluatorKind kClassification = {"classification", "prec@1, prec@5 and loss over every image", make_classification,
                                       config::keys_of<ClassificationOptions>};

}  // namespace tessera::evaluators
