// What is shown of a sweep.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/text.h"
#include "monitor/plot.h"
#include "sweep/score_text.h"
#include "sweep/sweep.h"

namespace tessera::sweep {
namespace {

// Runs that differ in these alone are one row.
bool is_repetition(const std::string& key) { return key == "seed" || key == "data.fold"; }

struct Row {
  Variant variant;  // without seed and fold
  size_t trials = 0, failed = 0;
  std::vector<double> best;

  std::optional<double> mean() const {
    if (best.empty()) return std::nullopt;
    double sum = 0;
    for (const double value : best) sum += value;
    return sum / static_cast<double>(best.size());
  }
  std::optional<double> deviation() const {
    if (best.size() < 2) return std::nullopt;
    double sum = 0;
    for (const double value : best) sum += (value - *mean()) * (value - *mean());
    return std::sqrt(sum / static_cast<double>(best.size() - 1));
  }
};

// By variant, in the order of the first of each; then the best first.
std::vector<Row> rows_of(const SweepResult& result, const recipe::BestMetric& metric) {
  std::vector<Row> rows;
  for (const Trial& trial : result.trials) {
    Variant variant = trial.variant;
    std::erase_if(variant, [](const auto& one) { return is_repetition(one.first); });
    auto row = std::ranges::find(rows, variant, &Row::variant);
    if (row == rows.end()) row = rows.insert(rows.end(), Row{.variant = variant, .best = {}});
    ++row->trials;
    row->failed += trial.ending == Ending::kFailed;
    if (trial.ending == Ending::kDone && trial.best) row->best.push_back(*trial.best);
  }
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    const auto x = a.mean(), y = b.mean();
    return x && (!y || metric.better(*x, *y));
  });
  return rows;
}

std::string padded(const std::string& text, size_t width) {
  const size_t length = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  return text + std::string(width > length ? width - length : 0, ' ');
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

const char* ending_text(Ending ending) {
  switch (ending) {
    case Ending::kDone: return "done";
    case Ending::kFailed: return "failed";
    case Ending::kStopped: return "stopped";
  }
  return "";
}

// A number, or the first one in a call: a schedule's rate.
std::optional<double> number_of(const std::string& value) {
  const size_t open = value.find('(');
  const std::string text = open == std::string::npos ? value : value.substr(open + 1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = end == text.data() + text.size() || (open != std::string::npos && (*end == ',' || *end == ')'));
  return error == std::errc() && whole ? std::optional(number) : std::nullopt;
}

// Over one key: each done trial's best.
std::optional<monitor::PlotPanel> panel_of(const SweepResult& result, const recipe::BestMetric& metric, size_t axis) {
  monitor::PlotSeries series{metric.name, {}, /*marked=*/true};
  double low = 0, high = 0;
  for (const Trial& trial : result.trials) {
    const auto x = number_of(trial.variant[axis].second);
    if (!x) return std::nullopt;
    if (trial.ending != Ending::kDone || !trial.best) continue;
    low = series.points.empty() ? *x : std::min(low, *x);
    high = series.points.empty() ? *x : std::max(high, *x);
    series.points.push_back({*x, metric.share ? 100 * *trial.best : *trial.best});
  }
  if (series.points.empty() || low == high) return std::nullopt;
  std::ranges::stable_sort(series.points, {}, &monitor::PlotPoint::x);
  return monitor::PlotPanel{result.trials[0].variant[axis].first, {std::move(series)}, low > 0 && high > 10 * low};
}

}  // namespace

std::string table(const SweepResult& result, const recipe::BestMetric& metric) {
  const std::vector<Row> rows = rows_of(result, metric);
  std::vector<std::vector<std::string>> cells{{}};
  for (const auto& [key, value] : rows[0].variant) cells[0].push_back(key);
  cells[0].insert(cells[0].end(), {metric.name, "±", "runs"});
  for (const Row& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const auto& [key, value] : row.variant) line.push_back(value);
    line.push_back(score_text(metric, row.mean()));
    line.push_back(row.deviation() ? score_text(metric, row.deviation()) : "");
    line.push_back(std::to_string(row.trials) + (row.failed > 0 ? fmt::format(", {} failed", row.failed) : ""));
  }
  std::vector<size_t> widths(cells[0].size());
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], padded(line[i], 0).size());
  }
  std::string text;
  for (const auto& line : cells) {
    std::string one;
    for (size_t i = 0; i < line.size(); ++i) one += padded(line[i], widths[i] + 3);
    one.erase(one.find_last_not_of(' ') + 1);
    text += (text.empty() ? "" : "\n") + one;
  }
  return text;
}

std::string csv(const SweepResult& result, const recipe::BestMetric& metric) {
  std::string text = "run";
  for (const auto& [key, value] : result.trials[0].variant) text += "," + quoted(key);
  text += fmt::format(",state,best {0},best step,last {0},seconds,problem\n", metric.name);
  for (const Trial& trial : result.trials) {
    text += quoted(file_name_of(trial.variant));
    for (const auto& [key, value] : trial.variant) text += "," + quoted(value);
    const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; };
    text += fmt::format(",{},{},{},{},{},{}\n", ending_text(trial.ending), number(trial.best),
                        trial.best ? std::to_string(trial.best_step) : "", number(trial.last),
                        trial.before ? "" : fmt::format("{:.2f}", trial.seconds), quoted(trial.problem));
  }
  return text;
}

std::string plot(const SweepResult& result, const recipe::BestMetric& metric) {
  std::vector<monitor::PlotPanel> panels;
  for (size_t axis = 0; axis < result.trials[0].variant.size(); ++axis) {
    if (auto panel = panel_of(result, metric, axis)) panels.push_back(std::move(*panel));
  }
  return panels.empty() ? "" : monitor::plot_svg(panels, metric.share ? metric.name + ", %" : metric.name);
}

std::string compilations(const SweepResult& result) {
  int64_t compiled = 0, loaded = 0;
  double seconds = 0;
  for (const Trial& trial : result.trials) {
    if (trial.before || trial.compile_seconds == 0) continue;
    trial.compiled ? ++compiled : ++loaded;
    if (trial.compiled) seconds += trial.compile_seconds;
  }
  return fmt::format("training steps: {} compiled{}, {} loaded", compiled,
                     compiled > 0 ? fmt::format(" in {}", human_duration(seconds)) : "", loaded);
}

}  // namespace tessera::sweep
