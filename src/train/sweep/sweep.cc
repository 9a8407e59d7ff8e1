#include "train/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/system/seconds_since.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "cluster/launch/processes/child.h"
#include "cluster/launch/processes/signals.h"
#include "monitor/metrics.h"
#include "store/file.h"
#include "store/small_file.h"
#include "train/sweep/halving.h"
#include "train/sweep/run_words.h"
#include "train/sweep/score_text.h"
#include "train/workdir/run_facts.h"

namespace tessera::sweep {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<train::RunFacts> facts_of(const std::string& run) {
  const std::string path = store::join_path(run, "run.json");
  store::FileSystem& files = store::local_files();
  if (!files.info(path)) return std::nullopt;
  try {
    return train::parse_run_facts(store::read_small_file(files, path), path);
  } catch (const Error&) {
    return std::nullopt;  // it is trained again
  }
}

// A trial on its way.
struct Running {
  Trial* trial = nullptr;
  Clock::time_point start = Clock::now();
  RunWords words;
  std::unique_ptr<launch::Child> child;
};

class Sweep {
 public:
  Sweep(const SweepOptions& options, SweepRecord& record) : options_(options), record_(record) {
    for (const Variant& variant : options.variants) {
      Trial& trial = result_.trials.emplace_back();
      trial.variant = variant;
      trial.path = store::join_path(options.directory, file_name_of(variant));
    }
    if (record.halving) result_.rungs = record.halving->steps.begin()->second.size();
  }

  SweepResult run() {
    const launch::BlockedSignals signals;
    std::vector<Trial*> live;
    for (Trial& trial : result_.trials) live.push_back(&trial);
    for (rung_ = 0; !live.empty(); ++rung_) {
      const bool decided = record_.halving && rung_ < record_.halving->rungs.size();
      if (decided) {
        take_over(live, record_.halving->rungs[rung_]);
      } else {
        train(live);
      }
      if (result_.stopped || rung_ + 1 >= result_.rungs) break;
      if (!decided) decide(live);
      live = going_on(live);
    }
    log_status("");
    result_.seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  bool last_rung() const { return rung_ + 1 >= result_.rungs; }
  // The step at which the trial pauses.
  int64_t pause_of(const Trial& trial) const { return record_.halving->steps.at(file_name_of(trial.variant))[rung_]; }

  // ---- training ----

  // All of them, as far as they go now.
  void train(const std::vector<Trial*>& live) {
    queue_.clear();
    done_ = trained_ = 0;
    trained_seconds_ = 0;
    trials_ = live.size();
    for (Trial* trial : live) {
      trial->rung = result_.rungs > 0 ? rung_ + 1 : 0;
      trial->ending = Ending::kStopped;
      const std::optional<Ending> before = ending_of(*trial);
      if (before) {
        trial->before = trial->seconds == 0;
        ++done_;
        settle(*trial, *before);
      } else {
        queue_.push_back(trial);
      }
    }
    slots_ = options_.slots(std::max<size_t>(queue_.size(), 1));
    running_ = std::vector<std::unique_ptr<Running>>(slots_.size());
    next_ = 0;
    while (fill_slots()) {
      const launch::BlockedSignals::Signal signal = launch::BlockedSignals::wait(std::chrono::milliseconds(500));
      if (signal.number != 0 && signal.number != SIGCHLD) stop(signal.number);
      for (std::unique_ptr<Running>& running : running_) {
        if (running && running->child->ended()) finish(std::exchange(running, nullptr));
      }
      show_progress();
    }
  }

  // How it ended where nothing is left to do in this rung: done, or paused.
  std::optional<Ending> ending_of(const Trial& trial) const {
    const auto facts = facts_of(trial.path);
    if (facts && facts->state == "done") return Ending::kDone;
    if (last_rung()) return std::nullopt;
    const std::string step = store::join_path("checkpoints", checkpoint::step_directory(pause_of(trial)));
    const std::string commit = store::join_path(store::join_path(trial.path, step), checkpoint::kCommitFile);
    return store::local_files().info(commit) ? std::optional(Ending::kPruned) : std::nullopt;
  }

  // False when nothing is left.
  bool fill_slots() {
    bool busy = false;
    for (size_t slot = 0; slot < running_.size(); ++slot) {
      if (!running_[slot] && !result_.stopped && next_ < queue_.size()) start(*queue_[next_++], slot);
      busy = busy || running_[slot];
    }
    return busy;
  }

  void start(Trial& trial, size_t slot) {
    auto running = std::make_unique<Running>();
    running->trial = &trial;
    trial.before = false;
    std::vector<std::string> command = {options_.program};
    command.insert(command.end(), options_.command.begin(), options_.command.end());
    for (const auto& [key, value] : trial.variant) command.push_back(options_.word(key, value));
    command.insert(command.end(), {"--workdir", trial.path, "--quiet"});
    if (!last_rung()) command.insert(command.end(), {"--until", fmt::format("{} steps", pause_of(trial))});
    running->child = std::make_unique<launch::Child>(
        launch::ChildOptions{.name = text_of(trial.variant),
                             .command = std::move(command),
                             .environment = slots_[slot].environment,
                             .processors = slots_[slot].processors,
                             .own_group = true,
                             .input = "",
                             .on_line = [&words = running->words](const std::string& line) { words.add(line); }});
    running_[slot] = std::move(running);
  }

  void stop(int signal) {
    if (!result_.stopped) log_line("stopping: the runs that train are saved");
    result_.stopped = launch::exit_after(signal);
    for (const std::unique_ptr<Running>& running : running_) {
      if (running) running->child->send(signal);
    }
  }

  void finish(std::unique_ptr<Running> running) {
    running->child->wait();
    Trial& trial = *running->trial;
    const double seconds = seconds_since(running->start);
    trial.seconds += seconds;
    const std::optional<Exit> exit = running->child->exit();
    const bool saved = exit == Exit::kPreempted || exit == Exit::kInterrupted;
    if (exit != Exit::kDone && !saved) {
      trial.exit = exit.value_or(Exit::kDevice);
      trial.problem = exit ? running->words.text() : running->child->end();
      if (trial.problem.empty()) trial.problem = running->child->end();
    }
    if (exit == Exit::kDone) {
      settle(trial, ending_of(trial).value_or(last_rung() ? Ending::kDone : Ending::kPruned));
    } else {
      settle(trial, saved ? Ending::kStopped : Ending::kFailed);
    }
    const double before = trial.compile_seconds;
    count_compilation(trial);
    if (saved) return;
    ++done_;
    ++trained_;
    trained_seconds_ += seconds;
    tell(trial, seconds, trial.compile_seconds - before);
  }

  // What its files say.
  void settle(Trial& trial, Ending ending) const {
    trial.ending = ending;
    trial.best = trial.last = std::nullopt;
    for (const monitor::MetricRow& row : monitor::read_metrics(store::join_path(trial.path, "metrics.jsonl"))) {
      if (ending == Ending::kPruned && row.step > pause_of(trial)) break;  // somebody went on with it by hand
      trial.steps = row.step;
      const auto found = row.values.find(options_.metric.name);
      if (found == row.values.end() || !std::isfinite(found->second)) continue;
      trial.last = found->second;
      if (trial.best && !options_.metric.better(found->second, *trial.best)) continue;
      trial.best = found->second;
      trial.best_step = row.step;
    }
  }

  static void count_compilation(Trial& trial) {
    const auto facts = facts_of(trial.path);
    if (!facts || facts->compile_seconds == 0) return;
    ++(facts->compiled ? trial.compiled : trial.loaded);
    (facts->compiled ? trial.compile_seconds : trial.load_seconds) += facts->compile_seconds;
  }

  // ---- rungs ----

  // What an earlier call found of a rung.
  void take_over(const std::vector<Trial*>& live, const DecidedRung& rung) const {
    for (Trial* trial : live) {
      trial->rung = rung_ + 1;
      trial->before = true;
      const auto failed = rung.failed.find(file_name_of(trial->variant));
      if (failed == rung.failed.end()) {
        settle(*trial, ending_of(*trial).value_or(Ending::kPruned));
      } else {
        trial->exit = failed->second.exit;
        trial->problem = failed->second.problem;
        settle(*trial, Ending::kFailed);
      }
    }
  }

  // Which of them go on, as the record then says.
  void decide(const std::vector<Trial*>& live) const {
    DecidedRung rung;
    std::vector<Variant> variants;
    std::vector<std::optional<double>> scores;
    for (const Trial* trial : live) {
      const bool failed = trial->ending == Ending::kFailed;
      if (failed) rung.failed[file_name_of(trial->variant)] = {trial->exit, trial->problem};
      variants.push_back(trial->variant);
      scores.push_back(failed ? std::nullopt : trial->best);
    }
    std::vector<std::string> shown;
    for (const size_t i : survivors(variants, scores, options_.metric, record_.halving->eta)) {
      if (live[i]->ending == Ending::kFailed) continue;  // another seed of its settings is among the best
      rung.kept.push_back(file_name_of(variants[i]));
      shown.push_back(text_of(variants[i]));
    }
    record_.halving->rungs.push_back(std::move(rung));
    write_record(options_.directory, record_);
    log_line(fmt::format("rung {} of {}: {} of {} go on{}{}", rung_ + 1, result_.rungs, shown.size(), live.size(),
                         shown.empty() ? "" : ": ", join(shown, ", ")));
  }

  std::vector<Trial*> going_on(const std::vector<Trial*>& live) const {
    const std::vector<std::string>& kept = record_.halving->rungs[rung_].kept;
    std::vector<Trial*> out;
    for (Trial* trial : live) {
      if (std::ranges::find(kept, file_name_of(trial->variant)) != kept.end()) out.push_back(trial);
    }
    return out;
  }

  // ---- what is said ----

  std::string place() const { return result_.rungs == 0 ? "" : fmt::format("rung {} of {}   ", rung_ + 1, result_.rungs); }

  // `compiling`: seconds, of `seconds`.
  void tell(const Trial& trial, double seconds, double compiling) const {
    const std::string what = trial.ending == Ending::kFailed
                                 ? "failed: " + trial.problem
                                 : options_.metric.name + " " + score_text(options_.metric, trial.best);
    const std::string anew = compiling > 0 ? fmt::format(", {} of it compiling", human_duration(compiling)) : "";
    log_line(fmt::format("{}[{}/{}] {}   {}   {}{}", place(), done_, trials_, text_of(trial.variant), what,
                         human_duration(seconds), anew));
  }

  void show_progress() const {
    const auto busy = std::ranges::count_if(running_, [](const auto& one) { return one != nullptr; });
    std::string text = fmt::format("{}{} of {} done   {} running", place(), done_, trials_, busy);
    const Trial* best = nullptr;
    for (const Trial& trial : result_.trials) {
      const bool scored = trial.best && (trial.ending == Ending::kDone || trial.ending == Ending::kPruned);
      if (scored && (!best || options_.metric.better(*trial.best, *best->best))) best = &trial;
    }
    if (best) text += fmt::format("   best {}", score_text(options_.metric, best->best));
    if (trained_ > 0) {
      const double each = trained_seconds_ / static_cast<double>(trained_) / static_cast<double>(running_.size());
      text += fmt::format("   {} left", human_duration(each * static_cast<double>(trials_ - done_)));
    }
    log_status(text);
  }

  const SweepOptions& options_;
  SweepRecord& record_;
  const Clock::time_point start_ = Clock::now();
  SweepResult result_;
  size_t rung_ = 0;  // from 0; without halving there is this one
  // Of the rung:
  std::vector<Trial*> queue_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<Running>> running_;  // in each slot
  size_t next_ = 0, trials_ = 0, done_ = 0, trained_ = 0;
  double trained_seconds_ = 0;
};

}  // namespace

SweepResult run_sweep(const SweepOptions& options, SweepRecord& record) {
  store::local_files().make_directories(options.directory);
  return Sweep(options, record).run();
}

}  // namespace tessera::sweep
