#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "train/evaluate/evaluation_summary.h"

namespace tessera::train {
namespace {

// The numbers of one column, of each example.
class ColumnView {
 public:
  ColumnView(const Evaluation& evaluation, size_t column) : rows_(evaluation.predictions) {
    for (size_t i = 0; i < column; ++i) offset_ += static_cast<size_t>(evaluation.columns[i].width);
  }
  float at(size_t example) const { return rows_.row(static_cast<int64_t>(example))[offset_]; }

 private:
  const metrics::Features& rows_;
  size_t offset_ = 0;
};

template <class Wanted>
std::optional<size_t> column_where(const Evaluation& evaluation, const Wanted& wanted) {
  const auto found = std::ranges::find_if(evaluation.columns, wanted);
  if (found == evaluation.columns.end()) return std::nullopt;
  return static_cast<size_t>(found - evaluation.columns.begin());
}

// The place of the column that says one class of each example.
std::optional<size_t> class_column(const Evaluation& evaluation) {
  return column_where(evaluation, [](const evaluators::Column& column) {
    return column.classes && column.width == 1 && column.name == "predicted";
  });
}

// Of what is predicted with which probability, the likeliest first.
std::optional<size_t> probability_column(const Evaluation& evaluation) {
  return column_where(evaluation, [](const evaluators::Column& column) { return column.name == "prob" && column.width > 0; });
}

// Of the first score that is a mean, the less the better.
std::optional<size_t> loss_column(const Evaluation& evaluation) {
  for (const Score& score : evaluation.scores.values) {
    if (score.share) continue;
    const auto found = std::ranges::find(evaluation.columns, score.name, &evaluators::Column::name);
    if (found != evaluation.columns.end() && found->width == 1) return static_cast<size_t>(found - evaluation.columns.begin());
  }
  return std::nullopt;
}

// Nothing where it is no number.
std::optional<double> probability_at(const ColumnView& column, size_t example) {
  const auto value = static_cast<double>(column.at(example));
  return value >= 0 ? std::optional(std::min(value, 1.0)) : std::nullopt;
}

// The examples with the greatest loss, in a heap of kWorstExamples of them.
std::vector<std::pair<double, size_t>> worst_of(const ColumnView& losses, size_t examples) {
  using Entry = std::pair<double, size_t>;
  // Whether `a` is worse; equal ones in the order of the source, in which examples come.
  const auto worse = [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::priority_queue<Entry, std::vector<Entry>, decltype(worse)> heap(worse);  // the least bad on top
  for (size_t i = 0; i < examples; ++i) {
    const auto loss = static_cast<double>(losses.at(i));
    const Entry entry{std::isnan(loss) ? std::numeric_limits<double>::infinity() : loss, i};
    if (heap.size() == kWorstExamples && !worse(entry, heap.top())) continue;
    heap.push(entry);
    if (heap.size() > kWorstExamples) heap.pop();
  }
  std::vector<Entry> out(heap.size());
  for (size_t i = out.size(); i > 0; --i, heap.pop()) out[i - 1] = heap.top();
  return out;
}

void keep_largest_cells(EvaluationSummary& summary) {
  auto& cells = summary.confusion;
  if (cells.size() <= kMaxConfusionCells) return;
  std::ranges::stable_sort(cells, std::greater{}, &metrics::ConfusionCell::count);
  for (size_t i = kMaxConfusionCells; i < cells.size(); ++i) summary.left_out += cells[i].count;
  cells.resize(kMaxConfusionCells);
  std::ranges::sort(cells, {}, [](const metrics::ConfusionCell& cell) { return std::pair(cell.label, cell.predicted); });
}

}  // namespace

EvaluationSummary summary_of(const recipe::EvalPlan& plan, const Evaluation& evaluation, const std::string& name,
                             int64_t step) {
  const data::Source& source = plan.sets[0].data.source();
  const size_t examples = evaluation.samples.size();
  EvaluationSummary out{name, plan.name, step, evaluation.scores.values, evaluation.scores.count, evaluation.scores.skipped};
  std::vector<int32_t> predicted;
  if (const auto column = class_column(evaluation); column && !evaluation.labels.empty()) {
    const ColumnView classes(evaluation, *column);
    for (size_t i = 0; i < examples; ++i) predicted.push_back(static_cast<int32_t>(classes.at(i)));
    out.classes = source.class_names();
    out.confusion = metrics::confusion_cells(evaluation.labels, predicted);
    keep_largest_cells(out);
  }
  const auto column = loss_column(evaluation);
  if (!column) return out;
  out.worst_by = evaluation.columns[*column].name;
  if (out.classes.empty() && !evaluation.labels.empty()) out.classes = source.class_names();
  const auto likely = probability_column(evaluation);
  for (const auto& [loss, i] : worst_of(ColumnView(evaluation, *column), examples)) {
    WorstExample worst{evaluation.samples[i], source.id(evaluation.samples[i]), -1, -1, loss};
    if (!evaluation.labels.empty()) worst.label = evaluation.labels[i];
    if (!predicted.empty() && static_cast<size_t>(predicted[i]) < out.classes.size()) worst.predicted = predicted[i];
    if (likely && worst.predicted >= 0) worst.probability = probability_at(ColumnView(evaluation, *likely), i);
    out.worst.push_back(std::move(worst));
  }
  return out;
}

}  // namespace tessera::train
