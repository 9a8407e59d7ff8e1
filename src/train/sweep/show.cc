// What is shown of a sweep.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/text/text.h"
#include "monitor/plot.h"
#include "train/sweep/rows.h"
#include "train/sweep/score_text.h"
#include "train/sweep/sweep.h"

namespace tessera::sweep {
namespace {

bool has_score(const Trial& trial) { return trial.best && (trial.ending == Ending::kDone || trial.ending == Ending::kPruned); }

// Of settings: as far as any of their trials came.
size_t rung_of(const SweepResult& result, const Row& row) {
  size_t rung = 0;
  for (const size_t i : row.trials) rung = std::max(rung, result.trials[i].rung);
  return rung;
}

// Those that came furthest first, and of them the best.
std::vector<Row> ranked_rows(const SweepResult& result, const recipe::BestMetric& metric) {
  std::vector<Variant> variants;
  std::vector<std::optional<double>> scores;
  for (const Trial& trial : result.trials) {
    variants.push_back(trial.variant);
    scores.push_back(has_score(trial) ? trial.best : std::nullopt);
  }
  std::vector<Row> rows = rows_of(variants, scores);
  rank(rows, metric);
  std::ranges::stable_sort(rows, std::ranges::greater{}, [&](const Row& row) { return rung_of(result, row); });
  return rows;
}

std::string padded(const std::string& text, size_t width) {
  const size_t length = static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  return text + std::string(width > length ? width - length : 0, ' ');
}

const char* ending_text(Ending ending) {
  switch (ending) {
    case Ending::kDone: return "done";
    case Ending::kFailed: return "failed";
    case Ending::kStopped: return "stopped";
    case Ending::kPruned: return "pruned";
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

// The scores over one key, of those that came to `rung`; in per cent where they are shares.
monitor::PlotSeries series_of(const SweepResult& result, const recipe::BestMetric& metric, size_t axis, size_t rung) {
  std::string name = metric.name;
  if (rung > 0) name = rung == result.rungs ? "trained to the end" : fmt::format("pruned at rung {}", rung);
  const double unit = recipe::in_per_cent(metric.name, metric.share) ? 100 : 1;
  monitor::PlotSeries series{name, {}, /*marked=*/true, rung == 0 ? 0 : result.rungs - rung};
  for (const Trial& trial : result.trials) {
    if (trial.rung != rung || !has_score(trial)) continue;
    series.points.push_back({*number_of(trial.variant[axis].second), unit * *trial.best});
  }
  std::ranges::stable_sort(series.points, {}, &monitor::PlotPoint::x);
  return series;
}

// Over one key: each trial's best.
std::optional<monitor::PlotPanel> panel_of(const SweepResult& result, const recipe::BestMetric& metric, size_t axis) {
  for (const Trial& trial : result.trials) {
    if (!number_of(trial.variant[axis].second)) return std::nullopt;
  }
  monitor::PlotPanel panel{result.trials[0].variant[axis].first, {}};
  std::optional<double> low, high;
  for (size_t rung = result.rungs + 1; rung-- > (result.rungs > 0 ? 1 : 0);) {
    monitor::PlotSeries series = series_of(result, metric, axis, rung);
    if (series.points.empty()) continue;
    low = std::min(low.value_or(series.points.front().x), series.points.front().x);
    high = std::max(high.value_or(series.points.back().x), series.points.back().x);
    panel.series.push_back(std::move(series));
  }
  if (!low || *low == *high) return std::nullopt;
  panel.log_x = *low > 0 && *high > 10 * *low;
  return panel;
}

// Rows of cells, the columns one under another.
std::string aligned(const std::vector<std::vector<std::string>>& cells) {
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

}  // namespace

std::string table(const SweepResult& result, const recipe::BestMetric& metric) {
  const std::vector<Row> rows = ranked_rows(result, metric);
  const bool halving = result.rungs > 0;
  std::vector<std::vector<std::string>> cells{{}};
  for (const auto& [key, value] : rows[0].settings) cells[0].push_back(key);
  cells[0].insert(cells[0].end(), {metric.name, "±", "runs"});
  if (halving) cells[0].insert(cells[0].end(), {"rung", "steps"});
  for (const Row& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const auto& [key, value] : row.settings) line.push_back(value);
    line.push_back(score_text(metric, row.mean()));
    line.push_back(row.deviation() ? score_text(metric, row.deviation()) : "");
    const auto failed = std::ranges::count_if(row.trials, [&](size_t i) { return result.trials[i].ending == Ending::kFailed; });
    line.push_back(std::to_string(row.trials.size()) + (failed > 0 ? fmt::format(", {} failed", failed) : ""));
    if (!halving) continue;
    int64_t steps = 0;
    for (const size_t i : row.trials) steps = std::max(steps, result.trials[i].steps);
    line.insert(line.end(), {fmt::format("{} of {}", rung_of(result, row), result.rungs), human_count(steps)});
  }
  return aligned(cells);
}

std::string csv(const SweepResult& result, const recipe::BestMetric& metric) {
  std::string text = "run";
  for (const auto& [key, value] : result.trials[0].variant) text += "," + csv_text(key);
  text += fmt::format(",state,best {0},best step,last {0},steps{1},seconds,problem\n", metric.name,
                      result.rungs > 0 ? ",rung" : "");
  for (const Trial& trial : result.trials) {
    text += csv_text(file_name_of(trial.variant));
    for (const auto& [key, value] : trial.variant) text += "," + csv_text(value);
    const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : ""; };
    text += fmt::format(",{},{},{},{},{}{},{},{}\n", ending_text(trial.ending), number(trial.best),
                        trial.best ? std::to_string(trial.best_step) : "", number(trial.last), trial.steps,
                        result.rungs > 0 ? fmt::format(",{}", trial.rung) : "",
                        trial.before ? "" : fmt::format("{:.2f}", trial.seconds), csv_text(trial.problem));
  }
  return text;
}

std::string plot(const SweepResult& result, const recipe::BestMetric& metric) {
  std::vector<monitor::PlotPanel> panels;
  for (size_t axis = 0; axis < result.trials[0].variant.size(); ++axis) {
    if (auto panel = panel_of(result, metric, axis)) panels.push_back(std::move(*panel));
  }
  return panels.empty()
             ? ""
             : monitor::plot_svg(panels, recipe::in_per_cent(metric.name, metric.share) ? metric.name + ", %" : metric.name);
}

std::string compilations(const SweepResult& result) {
  int64_t compiled = 0, loaded = 0;
  double compiling = 0, loading = 0;
  std::vector<std::string> runs;
  for (const Trial& trial : result.trials) {
    compiled += trial.compiled;
    loaded += trial.loaded;
    compiling += trial.compile_seconds;
    loading += trial.load_seconds;
    if (trial.compiled > 0) runs.push_back(text_of(trial.variant));
  }
  std::string text = fmt::format("training steps: {} compiled{}, {} loaded", compiled,
                                 compiled > 0 ? fmt::format(" in {}", human_duration(compiling)) : "", loaded);
  const double saved = compiled > 0 ? static_cast<double>(loaded) * compiling / static_cast<double>(compiled) - loading : 0;
  if (saved >= 1) text += fmt::format(", which took {} less than to compile them", human_duration(saved));
  if (runs.size() < 2) return text;
  constexpr size_t kShown = 6;
  const std::vector<std::string> shown(runs.begin(), runs.begin() + std::min<ptrdiff_t>(std::ssize(runs), kShown));
  return text + fmt::format("\ncompiled for: {}{}", join(shown, "; "), runs.size() > kShown ? "; …" : "");
}

std::string saving(const SweepResult& result, const HalvingRecord& halving) {
  int64_t trained = 0, all = 0;
  for (const Trial& trial : result.trials) {
    trained += trial.steps;
    all += halving.steps.at(file_name_of(trial.variant)).back();
  }
  return fmt::format("trained {} of the {} steps of all runs ({:.0f} %)", human_count(trained), human_count(all),
                     100.0 * static_cast<double>(trained) / static_cast<double>(all));
}

}  // namespace tessera::sweep
