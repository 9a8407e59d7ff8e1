#include <fmt/format.h>

#include "evaluators/evaluator.h"
#include "objectives/objective.h"

namespace tessera::evaluators {
namespace {

struct MeanOptions {
  template <class Visitor>
  void visit(Visitor&&) {}
};

class Mean final : public Evaluator {
 public:
  explicit Mean(std::shared_ptr<const objectives::Objective> objective) : objective_(std::move(objective)) {}

  void check(const models::Model& model, const config::Section& section) const override {
    // In a run the model is the objective's already.
    objective_->check(model, section);
  }
  std::vector<ScoreKind> score_kinds() const override {
    std::vector<ScoreKind> kinds = {{"loss"}};
    for (const std::string& name : objective_->metrics()) kinds.push_back({name, name.starts_with("prec@")});
    return kinds;
  }
  const objectives::Inputs& inputs(size_t) const override { return objective_->inputs(); }
  std::vector<Column> columns(size_t) const override {
    std::vector<Column> columns;
    for (const ScoreKind& kind : score_kinds()) columns.push_back({kind.name});
    if (objective_->weighs_examples()) columns.push_back({"weight"});
    return columns;
  }
  ir::Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const ir::Values outputs = objective_->outputs(model, scope, batch);
    ir::Values columns = {objective_->loss(outputs, batch)};
    for (size_t i = 0; i < objective_->metrics().size(); ++i) columns.push_back(objective_->metric(i, outputs, batch));
    if (objective_->weighs_examples()) columns.push_back(objective_->example_weights(batch));
    return columns;
  }
  // The loss is the weighted mean where training's is.
  Outcome outcome(std::vector<Rows> sets) const override {
    Outcome out = column_means(*this, std::move(sets[0].features));
    if (!objective_->weighs_examples()) return out;
    double weights = 0;
    for (int64_t i = 0; i < out.predictions.rows(); ++i) weights += double{out.predictions.row(i).back()};
    out.scores[0] *= static_cast<double>(out.predictions.rows()) / weights;
    return out;
  }

 private:
  std::shared_ptr<const objectives::Objective> objective_;
};

// `loss` and the measurements of the objective that training minimises, on other data.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the table of evaluators has functions of this type.
std::shared_ptr<const Evaluator> make_mean(config::Section section, const EvaluatorData& available) {
  const std::shared_ptr<const objectives::Objective> objective = available.objective();
  if (!objective->per_example()) {
    section.fail("type", "is mean, and the objective's loss of an example depends on the others of its batch",
                 "take another type of evaluator, such as retrieval");
  }
  if (objective->views() > 1) {
    section.fail("type", "is mean, and the objective compares views of an image, which evaluators don't make",
                 "take another type of evaluator, such as classification");
  }
  if (objective->teacher()) {
    section.fail("type", "is mean, and the objective compares with a second model's answers, which evaluators don't have",
                 "take another type of evaluator, such as classification");
  }
  for (const objectives::TokenInput& wanted : objective->inputs().tokens) {
    const objectives::TokenInput& found = objectives::find_tokens(available.inputs, wanted.name, section, "data");
    if (found.length == wanted.length && found.vocabulary == wanted.vocabulary && found.pad == wanted.pad) continue;
    section.fail(
        "data",
        fmt::format("has {} tokens `{}` of {} filled up with {}, and training {} of {} filled up with {}", found.length,
                    wanted.name, found.vocabulary, found.pad, wanted.length, wanted.vocabulary, wanted.pad),
        "tokenize them as training does");
  }
  return std::make_shared<Mean>(objective);
}

}  // namespace

const EvaluatorKind kMean = {"mean", "loss and what else the objective measures, on other data than training's", make_mean,
                             config::keys_of<MeanOptions>};

}  // namespace tessera::evaluators
