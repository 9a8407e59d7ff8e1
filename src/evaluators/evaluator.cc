#include "evaluators/evaluator.h"

#include <fmt/format.h>

#include "base/text.h"

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

std::shared_ptr<const Evaluator> make_evaluator(config::Section section, const EvaluatorData& data) {
  const std::string type = section.text("type", "classification");
  for (const EvaluatorKind* kind : evaluator_kinds()) {
    if (kind->name == type) return kind->make(std::move(section), data);
  }
  section.fail("type", fmt::format("is \"{}\", which is no evaluator", type), suggest_name(type, evaluator_names()));
}

}  // namespace tessera::evaluators
