#include "train/evaluate/evaluation_summary.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
// Beyond any data set; a million of them can be added up.
constexpr int64_t kMaxImages = 1'000'000'000'000;

// JSON has no other numbers than finite ones.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double finite_or(const Json& value, double otherwise) { return value.is_null() ? otherwise : value.get<double>(); }

int64_t count_at(const Json& json, const char* key) { return json_integer(json.at(key), 0, kMaxImages); }

double probability_in(const Json& json) {
  const double value = json.get<double>();
  if (!(value >= 0 && value <= 1)) throw data_error("a probability that is not between 0 and 1");
  return value;
}

EvaluationSummary summary_of(const Json& json) {
  EvaluationSummary out;
  out.name = json.at("name");
  out.evaluator = json.at("evaluator");
  out.step = count_at(json, "step");
  for (const Json& score : json.at("scores")) {
    out.scores.push_back({score.at("name"), score.at("share"), finite_or(score.at("value"), kNaN)});
  }
  out.count = count_at(json, "count");
  out.skipped = count_at(json, "skipped");
  out.classes = json.at("classes").get<std::vector<std::string>>();
  const auto classes = static_cast<int64_t>(out.classes.size());
  const Json& cells = json.at("confusion");
  if (!cells.is_array() || cells.size() % 3 != 0) throw data_error("a confusion matrix that is cut");
  for (size_t i = 0; i < cells.size(); i += 3) {
    out.confusion.push_back({static_cast<int32_t>(json_integer(cells[i], 0, classes - 1)),
                             static_cast<int32_t>(json_integer(cells[i + 1], 0, classes)),
                             json_integer(cells[i + 2], 1, kMaxImages)});
  }
  out.left_out = count_at(json, "left_out");
  out.worst_by = json.at("worst_by");
  for (const Json& one : json.at("worst")) {
    WorstExample worst{count_at(one, "sample"), one.at("id")};
    worst.label = static_cast<int32_t>(json_integer(one.at("label"), -1, classes - 1));
    worst.predicted = static_cast<int32_t>(json_integer(one.at("predicted"), -1, classes - 1));
    worst.loss = finite_or(one.at("loss"), kInfinity);
    if (one.contains("probability")) worst.probability = probability_in(one.at("probability"));
    out.worst.push_back(std::move(worst));
  }
  return out;
}

}  // namespace

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
    if (worst.probability) json["worst"].back()["probability"] = *worst.probability;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

EvaluationSummary parse_evaluation_summary(std::string_view json, const std::string& where) {
  try {
    return summary_of(parse_ordered_json(json, where));
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("this is no summary of an evaluation: {}", error.what()), where);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw data_error(fmt::format("this is no summary of an evaluation: it holds {}", error.message()), where);
  }
}

}  // namespace tessera::train
