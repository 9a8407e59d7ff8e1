#include "evaluators/evaluator.h"

#include <fmt/format.h>

#include "base/text.h"
#include "evaluators/caption_scoring.h"
#include "evaluators/classification.h"
#include "evaluators/few_shot.h"
#include "evaluators/knn.h"
#include "evaluators/linear_probe.h"
#include "evaluators/mean.h"
#include "evaluators/perplexity.h"
#include "evaluators/retrieval.h"
#include "evaluators/zero_shot.h"

namespace tessera::evaluators {
namespace {

using Factory = std::shared_ptr<const Evaluator> (*)(config::Section, const EvaluatorData&);

struct Entry {
  const char* name;
  Factory make;
};

constexpr Entry kEvaluators[] = {
#define EVALUATOR(name, Options, factory, help) {name, &factory},
#include "evaluators/evaluators.def"
#undef EVALUATOR
};

double mean_of_column(const metrics::Features& rows, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < rows.rows(); ++i) sum += double{rows.row(i)[static_cast<size_t>(column)]};
  return sum / static_cast<double>(rows.rows());
}

}  // namespace

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
  for (const Entry& entry : kEvaluators) names.push_back(entry.name);
  return names;
}

std::shared_ptr<const Evaluator> make_evaluator(config::Section section, const EvaluatorData& data) {
  const std::string type = section.text("type", "classification");
  for (const Entry& entry : kEvaluators) {
    if (entry.name == type) return entry.make(std::move(section), data);
  }
  section.fail("type", fmt::format("is \"{}\", which is no evaluator", type), suggest_name(type, evaluator_names()));
}

}  // namespace tessera::evaluators
