#include "train/evaluation_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "base/error.h"
#include "base/json.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

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

// The place of the column that says one class of each example.
std::optional<size_t> class_column(const Evaluation& evaluation) {
  const auto found = std::ranges::find_if(evaluation.columns, [](const evaluators::Column& column) {
    return column.classes && column.width == 1 && column.name == "predicted";
  });
  if (found == evaluation.columns.end()) return std::nullopt;
  return static_cast<size_t>(found - evaluation.columns.begin());
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
    const Entry entry{std::isnan(loss) ? kInfinity : loss, i};
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

int32_t class_or_none(const Json& value, size_t classes) {
  const auto place = value.get<int64_t>();
  if (place < -1 || place >= static_cast<int64_t>(classes)) throw data_error("a class that is not in the list");
  return static_cast<int32_t>(place);
}

// JSON has no other numbers than finite ones.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double finite_or(const Json& value, double otherwise) { return value.is_null() ? otherwise : value.get<double>(); }

EvaluationSummary from_json(const Json& json) {
  EvaluationSummary out;
  out.name = json.at("name");
  out.evaluator = json.at("evaluator");
  out.step = json.at("step");
  for (const Json& score : json.at("scores")) {
    out.scores.push_back({score.at("name"), score.at("share"), finite_or(score.at("value"), kNaN)});
  }
  out.count = json.at("count");
  out.skipped = json.at("skipped");
  out.classes = json.at("classes").get<std::vector<std::string>>();
  const auto cells = json.at("confusion").get<std::vector<int64_t>>();
  const auto classes = static_cast<int64_t>(out.classes.size());
  if (cells.size() % 3 != 0) throw data_error("a confusion matrix that is cut");
  for (size_t i = 0; i < cells.size(); i += 3) {
    const bool good = cells[i] >= 0 && cells[i] < classes && cells[i + 1] >= 0 && cells[i + 1] <= classes && cells[i + 2] > 0;
    if (!good) throw data_error("a cell of the confusion matrix that can't be");
    out.confusion.push_back({static_cast<int32_t>(cells[i]), static_cast<int32_t>(cells[i + 1]), cells[i + 2]});
  }
  out.left_out = json.at("left_out");
  out.worst_by = json.at("worst_by");
  for (const Json& one : json.at("worst")) {
    out.worst.push_back({one.at("sample"), one.at("id"), class_or_none(one.at("label"), out.classes.size()),
                         class_or_none(one.at("predicted"), out.classes.size()), finite_or(one.at("loss"), kInfinity)});
  }
  return out;
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
  for (const auto& [loss, i] : worst_of(ColumnView(evaluation, *column), examples)) {
    WorstExample worst{evaluation.samples[i], source.id(evaluation.samples[i]), -1, -1, loss};
    if (!evaluation.labels.empty()) worst.label = evaluation.labels[i];
    if (!predicted.empty() && static_cast<size_t>(predicted[i]) < out.classes.size()) worst.predicted = predicted[i];
    out.worst.push_back(std::move(worst));
  }
  return out;
}

std::string to_json(const EvaluationSummary& summary) {
  Json json = {{"name", summary.name},   {"evaluator", summary.evaluator}, {"step", summary.step},
               {"count", summary.count}, {"skipped", summary.skipped},     {"classes", summary.classes}};
  std::vector<int64_t> cells;
  for (const metrics::ConfusionCell& cell : summary.confusion)
    cells.insert(cells.end(), {cell.label, cell.predicted, cell.count});
  json["scores"] = Json::array();
  for (const Score& score : summary.scores) {
    json["scores"].push_back({{"name", score.name}, {"share", score.share}, {"value", finite(score.value)}});
  }
  json["confusion"] = cells;  // label, predicted, count, label, …
  json["left_out"] = summary.left_out;
  json["worst_by"] = summary.worst_by;
  json["worst"] = Json::array();
  for (const WorstExample& worst : summary.worst) {
    json["worst"].push_back({{"sample", worst.sample},
                             {"id", worst.id},
                             {"label", worst.label},
                             {"predicted", worst.predicted},
                             {"loss", finite(worst.loss)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

EvaluationSummary parse_evaluation_summary(std::string_view json, const std::string& where) {
  try {
    return from_json(parse_ordered_json(json, where));
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("this is no summary of an evaluation: {}", error.what()), where);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw data_error(fmt::format("this is no summary of an evaluation: it holds {}", error.message()), where);
  }
}

}  // namespace tessera::train
