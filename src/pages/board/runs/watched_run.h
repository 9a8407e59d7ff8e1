#pragma once
// The directory of a run, read again as the run goes on.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "monitor/alerts.h"
#include "monitor/metrics_tail.h"
#include "monitor/process_figures.h"
#include "pages/board/runs/compilations.h"
#include "pages/board/runs/series.h"
#include "pages/report/run.h"
#include "store/file.h"

namespace tessera::board {

using Json = nlohmann::ordered_json;

class WatchedRun {
 public:
  // `trains`: whether somebody trains in a directory now. There need be no run at `path` yet.
  WatchedRun(std::string name, std::string path, std::function<bool(const std::string&)> trains,
             store::FileSystem& files = store::local_files());

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }

  struct Change {
    bool metrics = false, state = false;
  };
  // Reads what is new, on one thread. What can't be read is among problems(), and tried again.
  Change refresh();

  // ---- from any thread; none of these waits for a file
  // state (starting, running, done, stopped, diverged, failed, killed), message, step, total, epoch, seconds_left, uptime, scores
  // of each evaluator, the newest figures.
  Json summary() const;
  // {"generation": …, "metrics": {NAME: {"step": […], "value": […]}}}; a value that is not finite is null. `names`: all where
  // there are none. When the generation is another, the run went back to an earlier step, and everything is to be asked again.
  Json metrics(const std::vector<std::string>& names, int64_t after, size_t count) const;
  // The newest value of each metric.
  std::vector<std::pair<std::string, Point>> newest() const;
  std::string state() const;
  // Somebody trains in the directory now.
  bool trains() const;
  // Steps were logged.
  bool has_steps() const;
  // What was compiled, the newest 100: [{"at", "program", "took", "cause"}].
  Json compilations() const;
  // The newest of each process, of runs of several: {"processes": […], "slowest": {…} or null, "hanging": [sentences],
  // "silent": [sentences]}.
  Json hosts() const;
  std::vector<monitor::ProcessFigures> processes() const;
  // A number that changes when the run's files have news besides metrics, or with an evaluation or an alert.
  int64_t version() const;

 private:
  bool take(monitor::MetricsTail::News news);
  bool skips_changed(const monitor::MetricRow& row);
  bool read_head();
  bool read_log();
  bool read_hosts();
  std::string state_of() const;
  std::optional<double> seconds_left() const;
  Json scores() const;

  const std::string name_, path_;
  const std::function<bool(const std::string&)> trains_;
  store::FileSystem& files_;
  monitor::MetricsTail tail_;
  monitor::LineTail log_;
  std::vector<store::FileInfo> seen_;  // the files of the head, as they were read
  std::optional<store::FileId> hosts_seen_;
  monitor::Alerts alerts_;  // but those of evaluations
  double skips_ = 0;        // updates that [guard] skipped

  mutable std::mutex mutex_;  // over the rest
  std::map<std::string, Series> series_;
  report::SavedRun head_;  // its rows: those with evaluations
  std::deque<Compilation> compilations_;
  monitor::HostFigures hosts_;
  std::chrono::steady_clock::time_point hosts_read_;
  std::string problem_;
  int64_t unreadable_ = 0;  // lines of metrics.jsonl
  bool training_ = false;
  int64_t generation_ = 0, version_ = 0;
};

}  // namespace tessera::board
