#include "pages/report/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "config/section.h"
#include "recipe/recipe.h"
#include "store/small_file.h"

namespace tessera::report {
namespace {

constexpr std::string_view kLast = ".last.json";
constexpr std::string_view kStage = "input/";
constexpr double kMaxFigure = 1e15;  // of seconds and examples

// "runs//a/./b/" -> {"runs", "a", "b"}
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::string& part : split(path, '/')) {
    if (!part.empty() && part != ".") parts.push_back(std::move(part));
  }
  return parts;
}

std::string end_of(const std::vector<std::string>& parts, size_t count) {
  const size_t from = parts.size() - std::min(count, parts.size());
  return parts.empty() ? "." : join({parts.begin() + static_cast<std::ptrdiff_t>(from), parts.end()}, "/");
}

constexpr int64_t kMaxMetricsFile = int64_t{4} << 30;  // which grows with a run

// What `read` makes of a file; a problem of the run where it can't be read.
template <class Read>
void read_part(SavedRun& run, store::FileSystem& files, const std::string& path, const Read& read,
               int64_t max_bytes = store::kMaxSmallFile) {
  try {
    if (files.info(path)) read(store::read_small_file(files, path, max_bytes));
  } catch (const Error& error) {
    run.problems.push_back(error.message().find(path) == std::string::npos ? fmt::format("{}: {}", path, error.message())
                                                                           : error.message());
  }
}

void read_evaluations(SavedRun& run, store::FileSystem& files) {
  const std::string directory = store::join_path(run.path, "evals");
  std::vector<std::string> names;
  try {
    if (files.info(directory)) {
      for (const store::FileInfo& file : files.list(directory)) {
        if (!file.directory && file.name.ends_with(kLast)) names.push_back(file.name);
      }
    }
  } catch (const Error& error) {
    run.problems.push_back(error.message());
  }
  for (const std::string& name : names) {
    const std::string path = store::join_path(directory, name);
    read_part(run, files, path,
              [&](const std::string& text) { run.evaluations.push_back(train::parse_evaluation_summary(text, path)); });
  }
}

// Keys of [eval]; none where the recipe has none that can be read.
void read_recipe(SavedRun& run, store::FileSystem& files, const std::string& path) {
  read_part(run, files, path, [&](const std::string& text) {
    run.recipe = text;
    run.evaluators = config::parse_recipe(text, path).section("eval").keys();
  });
}

void read_rows(SavedRun& run, store::FileSystem& files, const std::string& path) {
  read_part(
      run, files, path,
      [&](const std::string& text) {
        int64_t bad = 0;
        run.rows = monitor::parse_metrics(text, &bad);
        if (bad > 0) run.problems.push_back(unreadable_lines(path, bad));
      },
      kMaxMetricsFile);
}

// Where an evaluator, or its averaged weights', stands in the recipe; behind all others where it doesn't.
size_t place_of(const SavedRun& run, const std::string& name) {
  for (size_t i = 0; i < run.evaluators.size(); ++i) {
    if (name == run.evaluators[i]) return 2 * i;
    if (name == recipe::averaged_name(run.evaluators[i])) return 2 * i + 1;
  }
  return 2 * run.evaluators.size();
}

SavedRun read_run(const std::string& path, store::FileSystem& files) {
  SavedRun run = read_run_head(path, files);
  const std::string metrics = store::join_path(path, "metrics.jsonl");
  read_rows(run, files, metrics);
  if (run.facts && run.facts->state == "done" && run.rows.empty() && run.problems.empty())
    run.problems.push_back(fmt::format("`{}` has no measurements, although the run ended", metrics));
  if (run.recipe.empty() && run.rows.empty()) {
    throw data_error(fmt::format("nothing of the run `{}` can be read: {}", path,
                                 run.problems.empty() ? "its files are empty" : join(run.problems, "; ")));
  }
  std::erase_if(run.rows, [](const monitor::MetricRow& row) { return row.step < 0; });
  std::ranges::stable_sort(run.rows, {}, &monitor::MetricRow::step);
  return run;
}

double value_or(const monitor::MetricRow& row, std::string_view name, double otherwise) {
  const auto found = row.values.find(name);
  return found == row.values.end() || !(std::abs(found->second) < kMaxFigure) ? otherwise : found->second;
}

}  // namespace

bool holds_run(const std::string& path, store::FileSystem& files) {
  return files.info(store::join_path(path, "recipe.toml")) || files.info(store::join_path(path, "metrics.jsonl"));
}

std::string unreadable_lines(const std::string& path, int64_t count) {
  return fmt::format("`{}`: {} can't be read", path, count == 1 ? "a line" : human_count(count) + " lines");
}

// For a directory that is no run: a sweep, or the directory of several runs.
std::string runs_below(const std::string& path, store::FileSystem& files) {
  constexpr int kLooks = 100;  // each may be requests to a bucket
  try {
    int looks = 0;
    for (const store::FileInfo& file : files.list(path)) {
      if (!file.directory) continue;
      if (++looks > kLooks) break;
      if (!holds_run(store::join_path(path, file.name), files)) continue;
      const std::string own = store::join_path(path, "report/index.html");
      return fmt::format("{}tessera board {} shows the runs below it",
                         files.info(own) ? fmt::format("its report is {}; ", own) : "", shell_quoted(path));
    }
  } catch (const Error&) {  // that it holds no run is what counts
  }
  return "name the directory that `tessera train` said, as runs/digits-1";
}

SavedRun read_run_head(const std::string& path, store::FileSystem& files) {
  const auto info = files.info(path);
  if (!info) throw usage_error(fmt::format("there is no run `{}`", path), {}, "name the directory of a run: runs/digits-1");
  if (!info->directory) throw usage_error(fmt::format("`{}` is a file, and no directory of a run", path));
  if (!holds_run(path, files)) {
    throw usage_error(fmt::format("`{}` holds no run: neither recipe.toml nor metrics.jsonl", path), {},
                      runs_below(path, files));
  }
  SavedRun run;
  run.path = path;
  const std::string recipe = store::join_path(path, "recipe.toml"), facts = store::join_path(path, "run.json");
  read_recipe(run, files, recipe);
  read_part(run, files, facts, [&](const std::string& text) { run.facts = train::parse_run_facts(text, facts); });
  read_evaluations(run, files);
  std::ranges::stable_sort(run.evaluations, {}, [&](const train::EvaluationSummary& one) { return place_of(run, one.name); });
  return run;
}

std::vector<std::string> shortest_names(const std::vector<std::string>& paths) {
  size_t longest = 1;
  for (const std::string& path : paths) longest = std::max(longest, parts_of(path).size());
  std::vector<std::string> names;
  for (size_t count = 1; count <= longest; ++count) {
    names.clear();
    for (const std::string& path : paths) names.push_back(end_of(parts_of(path), count));
    if (std::set(names.begin(), names.end()).size() == paths.size()) return names;
  }
  return paths;
}

std::vector<SavedRun> read_runs(const std::vector<std::string>& paths, store::FileSystem& files) {
  std::vector<SavedRun> runs;
  std::vector<store::FileId> seen;
  for (const std::string& path : paths) {
    runs.push_back(read_run(path, files));
    const store::FileId id = files.info(path)->id;
    if (std::ranges::find(seen, id) != seen.end()) throw usage_error(fmt::format("the run `{}` is named twice", path));
    seen.push_back(id);
  }
  const std::vector<std::string> names = shortest_names(paths);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
  return runs;
}

std::vector<std::pair<int64_t, double>> series(const SavedRun& run, std::string_view metric) {
  std::vector<std::pair<int64_t, double>> out;
  for (const monitor::MetricRow& row : run.rows) {
    if (const auto found = row.values.find(metric); found != row.values.end()) out.emplace_back(row.step, found->second);
  }
  return out;
}

std::vector<std::string> evaluator_names(const SavedRun& run) {
  std::set<std::string> found;
  for (const monitor::MetricRow& row : run.rows) {
    for (const auto& [metric, value] : row.values) {
      if (metric.ends_with("/count")) found.insert(metric.substr(0, metric.rfind('/')));  // every evaluation has one
    }
  }
  std::vector<std::string> names(found.begin(), found.end());
  std::ranges::stable_sort(names, {}, [&](const std::string& name) { return place_of(run, name); });
  return names;
}

std::string MainScore::text(double value) const {
  return recipe::in_per_cent(score, share) ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4g}", value);
}

std::optional<MainScore> main_score(const SavedRun& run, const std::string& evaluator) {
  for (const train::EvaluationSummary& evaluation : run.evaluations) {
    if (evaluation.name != evaluator || evaluation.scores.empty()) continue;
    return MainScore{evaluator, evaluation.scores[0].name, evaluation.scores[0].share};
  }
  for (const auto& [score, share] : {std::pair{"prec@1", true}, std::pair{"loss", false}}) {
    if (!series(run, fmt::format("{}/{}", evaluator, score)).empty()) return MainScore{evaluator, score, share};
  }
  return std::nullopt;
}

std::optional<BestScore> best_score(const SavedRun& run, const std::string& evaluator) {
  const auto score = main_score(run, evaluator);
  if (!score) return std::nullopt;
  std::optional<BestScore> best;
  for (const auto& [step, value] : series(run, score->metric())) {
    if (!std::isfinite(value)) continue;
    if (!best) best = BestScore{*score, value, value, step, step, 0};
    if (score->better(value, best->best)) best->best = value, best->best_step = step;
    best->last = value, best->last_step = step;
    ++best->evaluations;
  }
  return best;
}

TimeShares time_shares(const SavedRun& run) {
  TimeShares out;
  std::map<std::string, double> stages;
  double images = 0, stage_seconds = 0, uptime = 0, seen = 0;
  for (const monitor::MetricRow& row : run.rows) {
    const double speed = value_or(row, "img/sec", 0), now = value_or(row, "uptime", uptime);
    const double examples = value_or(row, "examples_seen", seen), passed = std::max(0.0, now - uptime);
    const double steps = speed > 0 ? std::clamp((examples - seen) / speed, 0.0, passed) : 0;
    const double waiting = steps * std::clamp(value_or(row, "input_wait", 0), 0.0, 1.0);
    out.waiting += waiting;
    out.training += steps - waiting;
    (images == 0 ? out.starting : out.other) += passed - steps;
    if (steps > 0) images += examples - seen;
    for (const auto& [name, value] : row.values) {
      if (name.starts_with(kStage) && std::isfinite(value)) stages[name.substr(kStage.size())] += value * steps;
    }
    stage_seconds += steps;
    uptime = std::max(uptime, now), seen = examples;
  }
  // What the start that was stopped did last stands in no line yet, unless that is the save at the end of a run that was made
  // longer, and it was stopped before its next step.
  const auto save = run.facts && run.facts->state == "stopped" ? run.facts->last_save : std::nullopt;
  if (save && !run.rows.empty() && save->uptime >= uptime) {
    out.other += save->seconds;
    uptime += save->seconds;
  }
  out.total = uptime;
  if (out.training + out.waiting > 0) out.images_per_second = images / (out.training + out.waiting);
  for (const auto& [name, seconds] : stages) {
    if (stage_seconds > 0 && seconds > 0) out.stages.emplace_back(name, seconds / stage_seconds);
  }
  std::ranges::stable_sort(out.stages, std::greater{}, &std::pair<std::string, double>::second);
  return out;
}

}  // namespace tessera::report
