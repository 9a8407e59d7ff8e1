#include "evaluators/evaluator.h"

#include <fmt/format.h>

#include "base/text/text.h"
#include "config/other_words.h"

namespace tessera::evaluators {
namespace {

double mean_of_column(const metrics::Features& rows, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < rows.rows(); ++i) sum += double{rows.row(i)[static_cast<size_t>(column)]};
  return sum / static_cast<double>(rows.rows());
}

}  // namespace

const std::vector<const EvaluatorKind*>& evaluator_kinds() {
  static const std::vector<const EvaluatorKind*> kinds = {
#define EVALUATOR(object) &object,
#include "evaluators/evaluators.def"
#undef EVALUATOR
  };
  return kinds;
}

namespace {

void check_labels(const config::Section& section, const std::string& type, const Evaluator& evaluator,
                  const objectives::DataInputs& available) {
  if (available.multi_label && evaluator.reads_one_label()) {
    section.fail("type", fmt::format("is {}, which takes one label an image, and the data has any number", type),
                 "take multilabel, which is what it is when not given");
  }
  if (!available.multi_label && evaluator.inputs(0).multi_hot > 0) {
    section.fail("type", fmt::format("is {}, which takes several labels an image, and the data has one", type),
                 "take classification; or labels=… in the source, where a field holds a list of labels");
  }
}

}  // namespace

std::string usual_evaluator(const objectives::DataInputs& available) {
  return available.multi_label ? "multilabel" : "classification";
}

Outcome Evaluator::outcome(std::vector<Rows> sets) const { return column_means(*this, std::move(sets[0].features)); }

Outcome column_means(const Evaluator& evaluator, metrics::Features rows) {
  Outcome out{{}, evaluator.columns(0), std::move(rows), {}};
  for (const ScoreKind& score : evaluator.score_kinds()) {
    int64_t at = 0;
    for (const Column& column : out.columns) {
      if (column.name == score.name) out.scores.push_back(mean_of_column(out.predictions, at));
      at += column.width;
    }
  }
  return out;
}

std::vector<std::string> evaluator_names() {
  std::vector<std::string> names;
  for (const EvaluatorKind* kind : evaluator_kinds()) names.push_back(kind->name);
  return names;
}

std::shared_ptr<const Evaluator> make_evaluator(config::Section section, const EvaluatorData& available) {
  const std::string type = section.text("type", usual_evaluator(available.inputs));
  for (const EvaluatorKind* kind : evaluator_kinds()) {
    if (kind->name != type) continue;
    std::shared_ptr<const Evaluator> evaluator = kind->make(section, available);
    check_labels(section, type, *evaluator, available.inputs);
    return evaluator;
  }
  section.fail("type", fmt::format("is \"{}\", which is no evaluator", type), config::suggest_value(type, evaluator_names()));
}

}  // namespace tessera::evaluators
