#include "pages/board/runs/watched_run.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "store/small_file.h"

namespace tessera::board {
namespace {

// Lines over which the time of a step is taken for what is left.
constexpr size_t kRecent = 32;
constexpr size_t kMaxCompilations = 100;

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

bool is_evaluation(const monitor::MetricRow& row) {
  return std::ranges::any_of(row.values, [](const auto& one) { return one.first.ends_with("/count"); });
}

}  // namespace

WatchedRun::WatchedRun(std::string name, std::string path, std::function<bool(const std::string&)> trains,
                       store::FileSystem& files)
    : name_(std::move(name)),
      path_(std::move(path)),
      trains_(std::move(trains)),
      files_(files),
      tail_(store::join_path(path_, "metrics.jsonl"), files),
      log_(store::join_path(path_, "log.txt"), files) {}

bool WatchedRun::take(monitor::MetricsTail::News news) {
  if (!news.from_start && news.rows.empty() && news.unreadable == 0) return false;
  const std::lock_guard lock(mutex_);
  if (news.from_start) {
    series_.clear();
    head_.rows.clear();
    alerts_ = monitor::Alerts();
    skips_ = 0;
    ++generation_;
    unreadable_ = 0;
  }
  unreadable_ += news.unreadable;
  for (monitor::MetricRow& row : news.rows) {
    for (const auto& [metric, value] : row.values) {
      if (metric != "step") series_[metric].add({row.step, value});
    }
    // The verdict tells of both.
    const bool alerts = !alerts_.add(row).empty(), skips = skips_changed(row);
    if (alerts || skips) ++version_;
    if (!is_evaluation(row)) continue;
    head_.rows.push_back(std::move(row));
    ++version_;
    seen_.clear();  // its summary was written before
  }
  return true;
}

// Whether [guard] skipped another number of updates than the last line with that number said.
bool WatchedRun::skips_changed(const monitor::MetricRow& row) {
  const auto found = row.values.find("skips");
  if (found == row.values.end() || found->second == skips_) return false;
  skips_ = found->second;
  return true;
}

// Whether it is another than before. A file that was replaced twice between two looks may have its inode again: where that could
// be, seen_ was cleared.
bool WatchedRun::read_head() {
  std::vector<store::FileInfo> now;
  for (const char* file : {"recipe.toml", "run.json"}) {
    if (const auto info = files_.info(store::join_path(path_, file))) now.push_back(*info);
  }
  const std::string evaluations = store::join_path(path_, "evals");
  if (files_.info(evaluations)) std::ranges::move(files_.list(evaluations), std::back_inserter(now));
  const auto same = [](const store::FileInfo& a, const store::FileInfo& b) {
    return a.name == b.name && a.size == b.size && a.id == b.id;
  };
  if (now.empty() || std::ranges::equal(now, seen_, same)) return false;
  report::SavedRun head = report::read_run_head(path_, files_);
  seen_ = std::move(now);
  const std::lock_guard lock(mutex_);
  head.rows = std::move(head_.rows);
  head_ = std::move(head);
  return true;
}

bool WatchedRun::read_log() {
  std::deque<Compilation> found;
  const bool from_start = log_.read([&](std::string_view line) {
    if (auto one = parse_compilation(line)) found.push_back(std::move(*one));
    if (found.size() > kMaxCompilations) found.pop_front();
  });
  if (found.empty() && !from_start) return false;
  const std::lock_guard lock(mutex_);
  if (from_start) compilations_.clear();
  std::ranges::move(found, std::back_inserter(compilations_));
  while (compilations_.size() > kMaxCompilations) compilations_.pop_front();
  return true;
}

// It is another file each time that it is written; one that has the number of the last one is read with the next.
bool WatchedRun::read_hosts() {
  const std::string path = store::join_path(path_, monitor::kHostsFile);
  const auto info = files_.info(path);
  const std::optional<store::FileId> now = info ? std::optional(info->id) : std::nullopt;
  if (now == hosts_seen_) return false;
  monitor::HostFigures read;
  if (now) read = monitor::parse_host_figures(store::read_small_file(files_, path), path);
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(read);
  hosts_read_ = std::chrono::steady_clock::now();
  hosts_seen_ = now;
  return true;
}

WatchedRun::Change WatchedRun::refresh() {
  Change change;
  std::string problem;
  const bool training = trains_(path_);
  if (training != training_) seen_.clear();
  try {
    change.metrics = take(tail_.read());
    change.state = read_head();
    change.state = read_log() || change.state;
    change.metrics = read_hosts() || change.metrics;
  } catch (const Error& error) {
    problem = error.message();
  }
  const std::lock_guard lock(mutex_);
  change.state = change.state || training != training_ || problem != problem_;
  if (change.state) ++version_;
  training_ = training;
  problem_ = std::move(problem);
  return change;
}

std::string WatchedRun::state_of() const {
  if (!head_.facts) return training_ ? "starting" : series_.empty() ? "not started" : "killed";
  if (training_) return "running";
  return head_.facts->state == "running" ? "killed" : head_.facts->state;
}

std::string WatchedRun::state() const {
  const std::lock_guard lock(mutex_);
  return state_of();
}

bool WatchedRun::trains() const {
  const std::lock_guard lock(mutex_);
  return training_;
}

bool WatchedRun::has_steps() const {
  const std::lock_guard lock(mutex_);
  return !series_.empty();
}

Json WatchedRun::compilations() const {
  const std::lock_guard lock(mutex_);
  Json out = Json::array();
  for (const Compilation& one : compilations_) {
    out.push_back({{"at", one.at}, {"program", one.program}, {"took", one.took}, {"cause", one.cause}});
  }
  return out;
}

Json WatchedRun::hosts() const {
  const std::lock_guard lock(mutex_);
  Json processes = Json::array();
  // By the leader's clock, which may be another machine's. Of a run that does not train: at its end.
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - hosts_read_;
  const double now = hosts_.at + (training_ ? since.count() : 0);
  for (const monitor::ProcessFigures& one : hosts_.processes) {
    Json process = {{"process", one.process}, {"host", one.host}, {"step", one.step}, {"age", std::max(0.0, now - one.seen)}};
    for (const auto& [name, value] : one.numbers()) process[name] = value ? finite(*value) : Json();
    processes.push_back(std::move(process));
  }
  Json slowest;
  if (const auto found = monitor::slowest_process(hosts_.processes)) {
    slowest = {{"process", found->process}, {"holds_up", found->holds_up()}, {"text", monitor::in_words(*found)}};
  }
  return {{"processes", std::move(processes)},
          {"slowest", std::move(slowest)},
          {"hanging", monitor::hanging_processes(hosts_)},
          {"silent", monitor::silent_processes(hosts_, now)}};
}

std::vector<monitor::ProcessFigures> WatchedRun::processes() const {
  const std::lock_guard lock(mutex_);
  return hosts_.processes;
}

int64_t WatchedRun::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::optional<double> WatchedRun::seconds_left() const {
  const auto times = series_.find("uptime"), progress = series_.find("progress");
  if (times == series_.end() || progress == series_.end()) return std::nullopt;
  const std::vector<Point>& all = times->second.all();
  const Point &last = all.back(), &before = all[all.size() - std::min(all.size(), kRecent)];
  const double share = progress->second.last().value;
  if (last.step <= before.step || !(share > 0) || !(last.value > before.value)) return std::nullopt;
  const double steps = static_cast<double>(last.step) * (1 - share) / share;
  return steps * (last.value - before.value) / static_cast<double>(last.step - before.step);
}

Json WatchedRun::scores() const {
  Json out = Json::array();
  for (const std::string& evaluator : report::evaluator_names(head_)) {
    const auto best = report::best_score(head_, evaluator);
    if (!best) continue;
    out.push_back({{"evaluator", evaluator},
                   {"score", best->score.score},
                   {"text", best->score.text(best->last)},
                   {"best_text", best->score.text(best->best)},
                   {"last", best->last},
                   {"best", best->best},
                   {"step", best->last_step},
                   {"best_step", best->best_step}});
  }
  return out;
}

Json WatchedRun::summary() const {
  const std::lock_guard lock(mutex_);
  Json out = {{"name", name_}, {"path", path_}, {"state", state_of()}, {"generation", generation_}, {"version", version_}};
  if (head_.facts && !head_.facts->message.empty() && !training_) out["message"] = head_.facts->message;
  int64_t step = 0;
  Json newest = Json::object();
  for (const auto& [metric, points] : series_) {
    step = std::max(step, points.last().step);
    newest[metric] = finite(points.last().value);
  }
  out["step"] = step;
  if (const auto progress = series_.find("progress"); progress != series_.end()) {
    const Point& last = progress->second.last();
    out["progress"] = finite(last.value);
    if (last.value > 0) out["total"] = std::llround(static_cast<double>(last.step) / last.value);
  }
  const auto left = seconds_left();
  out["seconds_left"] = training_ && left ? finite(*left) : Json();
  out["scores"] = scores();
  out["newest"] = std::move(newest);
  Json problems = head_.problems;
  if (unreadable_ > 0) problems.push_back(report::unreadable_lines(store::join_path(path_, "metrics.jsonl"), unreadable_));
  if (!problem_.empty()) problems.push_back(problem_);
  out["problems"] = std::move(problems);
  return out;
}

Json WatchedRun::metrics(const std::vector<std::string>& names, int64_t after, size_t count) const {
  const std::lock_guard lock(mutex_);
  Json out = Json::object();
  const auto add = [&](const std::string& name, const Series& points) {
    Json steps = Json::array(), values = Json::array();
    for (const Point& point : points.points(after, count)) {
      steps.push_back(point.step);
      values.push_back(finite(point.value));
    }
    if (!steps.empty()) out[name] = {{"step", std::move(steps)}, {"value", std::move(values)}};
  };
  if (names.empty()) {
    for (const auto& [name, points] : series_) add(name, points);
  }
  for (const std::string& name : names) {
    if (const auto found = series_.find(name); found != series_.end()) add(name, found->second);
  }
  return {{"run", name_}, {"generation", generation_}, {"metrics", std::move(out)}};
}

std::vector<std::pair<std::string, Point>> WatchedRun::newest() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, Point>> out;
  for (const auto& [name, points] : series_) out.emplace_back(name, points.last());
  return out;
}

}  // namespace tessera::board
