#include "sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "launch/child.h"
#include "launch/signals.h"
#include "monitor/metrics.h"
#include "store/file.h"
#include "sweep/score_text.h"
#include "train/run_facts.h"

namespace tessera::sweep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::optional<train::RunFacts> facts_of(const std::string& run) {
  const std::string path = store::join_path(run, "run.json");
  store::FileSystem& files = store::local_files();
  if (!files.info(path)) return std::nullopt;
  try {
    return train::parse_run_facts(store::read_text(files, path), path);
  } catch (const Error&) {
    return std::nullopt;  // it is trained again
  }
}

// What a run said that matters: its first error, else its last line.
class Words {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (!error_) text_ = line;
    error_ = error_ || line.starts_with("error: ");
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_.starts_with("error: ") ? text_.substr(7) : text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  bool error_ = false;
};

// A trial on its way.
struct Running {
  Trial* trial = nullptr;
  Clock::time_point start = Clock::now();
  Words words;
  std::unique_ptr<launch::Child> child;
};

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options), running_(options.slots.size()) {
    for (const Variant& variant : options.variants) {
      Trial& trial = result_.trials.emplace_back();
      trial.variant = variant;
      trial.path = store::join_path(options.directory, file_name_of(variant));
    }
  }

  SweepResult run() {
    const launch::BlockedSignals signals;
    for (Trial& trial : result_.trials) {
      const auto facts = facts_of(trial.path);
      if (!facts || facts->state != "done") continue;
      trial.before = true;
      ++done_;
      settle(trial, Ending::kDone);
    }
    while (fill_slots()) {
      const launch::BlockedSignals::Signal signal = launch::BlockedSignals::wait(std::chrono::milliseconds(500));
      if (signal.number != 0 && signal.number != SIGCHLD) stop(signal.number);
      for (std::unique_ptr<Running>& running : running_) {
        if (running && running->child->ended()) finish(std::exchange(running, nullptr));
      }
      show_progress();
    }
    log_status("");
    result_.seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  // False when nothing is left.
  bool fill_slots() {
    bool busy = false;
    for (size_t slot = 0; slot < running_.size(); ++slot) {
      while (!running_[slot] && !result_.stopped && next_ < result_.trials.size()) {
        Trial& trial = result_.trials[next_++];
        if (!trial.before) start(trial, slot);
      }
      busy = busy || running_[slot];
    }
    return busy;
  }

  void start(Trial& trial, size_t slot) {
    auto running = std::make_unique<Running>();
    running->trial = &trial;
    std::vector<std::string> command = {options_.program};
    command.insert(command.end(), options_.command.begin(), options_.command.end());
    for (const auto& [key, value] : trial.variant) command.push_back(options_.word(key, value));
    command.insert(command.end(), {"--workdir", trial.path, "--quiet"});
    running->child = std::make_unique<launch::Child>(
        launch::ChildOptions{.name = text_of(trial.variant),
                             .command = std::move(command),
                             .environment = options_.slots[slot].environment,
                             .processors = options_.slots[slot].processors,
                             .own_group = true,
                             .input = "",
                             .on_line = [&words = running->words](const std::string& line) { words.add(line); }});
    running_[slot] = std::move(running);
  }

  void stop(int signal) {
    if (!result_.stopped) log_line("stopping: the runs that train are saved");
    result_.stopped = true;
    for (const std::unique_ptr<Running>& running : running_) {
      if (running) running->child->send(signal);
    }
  }

  void finish(std::unique_ptr<Running> running) {
    running->child->wait();
    Trial& trial = *running->trial;
    trial.seconds = seconds_since(running->start);
    const std::optional<Exit> exit = running->child->exit();
    const bool saved = exit == Exit::kPreempted || exit == Exit::kInterrupted;
    if (exit != Exit::kDone && !saved) {
      trial.exit = exit.value_or(Exit::kDevice);
      trial.problem = exit ? running->words.text() : running->child->end();
      if (trial.problem.empty()) trial.problem = running->child->end();
    }
    settle(trial, exit == Exit::kDone ? Ending::kDone : saved ? Ending::kStopped : Ending::kFailed);
    if (saved) return;
    ++done_;
    ++trained_;
    trained_seconds_ += trial.seconds;
    tell(trial);
  }

  // What its files say.
  void settle(Trial& trial, Ending ending) {
    trial.ending = ending;
    for (const monitor::MetricRow& row : monitor::read_metrics(store::join_path(trial.path, "metrics.jsonl"))) {
      const auto found = row.values.find(options_.metric.name);
      if (found == row.values.end() || !std::isfinite(found->second)) continue;
      trial.last = found->second;
      if (trial.best && !options_.metric.better(found->second, *trial.best)) continue;
      trial.best = found->second;
      trial.best_step = row.step;
    }
    if (const auto facts = facts_of(trial.path); facts && !trial.before) {
      trial.compiled = facts->compiled;
      trial.compile_seconds = facts->compile_seconds;
    }
  }

  void tell(const Trial& trial) const {
    const std::string what = trial.ending == Ending::kFailed
                                 ? "failed: " + trial.problem
                                 : options_.metric.name + " " + score_text(options_.metric, trial.best);
    log_line(fmt::format("[{}/{}] {}   {}   {}", done_, result_.trials.size(), text_of(trial.variant), what,
                         human_duration(trial.seconds)));
  }

  void show_progress() const {
    const auto busy = std::ranges::count_if(running_, [](const auto& one) { return one != nullptr; });
    std::string text = fmt::format("{} of {} done   {} running", done_, result_.trials.size(), busy);
    const Trial* best = nullptr;
    for (const Trial& trial : result_.trials) {
      if (trial.best && trial.ending == Ending::kDone && (!best || options_.metric.better(*trial.best, *best->best)))
        best = &trial;
    }
    if (best) text += fmt::format("   best {}", score_text(options_.metric, best->best));
    if (trained_ > 0) {
      const double each = trained_seconds_ / static_cast<double>(trained_) / static_cast<double>(running_.size());
      text += fmt::format("   {} left", human_duration(each * static_cast<double>(result_.trials.size() - done_)));
    }
    log_status(text);
  }

  const SweepOptions& options_;
  const Clock::time_point start_ = Clock::now();
  SweepResult result_;
  std::vector<std::unique_ptr<Running>> running_;  // in each slot
  size_t next_ = 0, done_ = 0, trained_ = 0;
  double trained_seconds_ = 0;
};

}  // namespace

SweepResult run_sweep(const SweepOptions& options) {
  store::local_files().make_directories(options.directory);
  return Sweep(options).run();
}

}  // namespace tessera::sweep
