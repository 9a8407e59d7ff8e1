#include "objectives/scorer.h"

#include <fmt/format.h>

#include "base/text.h"
#include "objectives/caption_scoring.h"
#include "objectives/classification.h"
#include "objectives/few_shot.h"
#include "objectives/knn.h"
#include "objectives/linear_probe.h"
#include "objectives/mean.h"
#include "objectives/perplexity.h"
#include "objectives/retrieval.h"
#include "objectives/zero_shot.h"

namespace tessera::objectives {
namespace {

using Factory = std::shared_ptr<const Scorer> (*)(config::Section, const ScorerData&);

struct Entry {
  const char* name;
  Factory make;
};

constexpr Entry kScorers[] = {
#define SCORER(name, Options, factory, help) {name, &factory},
#include "objectives/scorers.def"
#undef SCORER
};

double mean_of_column(const metrics::Features& rows, int64_t column) {
  double sum = 0;
  for (int64_t i = 0; i < rows.rows(); ++i) sum += double{rows.row(i)[static_cast<size_t>(column)]};
  return sum / static_cast<double>(rows.rows());
}

}  // namespace

Outcome Scorer::outcome(std::vector<Rows> sets) const { return column_means(*this, std::move(sets[0].features)); }

Outcome column_means(const Scorer& scorer, metrics::Features rows) {
  Outcome out{{}, scorer.columns(0), std::move(rows), {}};
  for (const ScoreKind& score : scorer.scores()) {
    int64_t at = 0;
    for (const Column& column : out.columns) {
      if (column.name == score.name) out.figures.push_back(mean_of_column(out.said, at));
      at += column.width;
    }
  }
  return out;
}

std::vector<std::string> scorer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kScorers) names.push_back(entry.name);
  return names;
}

std::shared_ptr<const Scorer> make_scorer(config::Section section, const ScorerData& data) {
  const std::string type = section.text("type", "classification");
  for (const Entry& entry : kScorers) {
    if (entry.name == type) return entry.make(std::move(section), data);
  }
  section.fail("type", fmt::format("is \"{}\", which is no evaluator", type), suggest_name(type, scorer_names()));
}

}  // namespace tessera::objectives
