#pragma once
// What a run tells: lines of metrics.jsonl and summary.csv, the console, and the sinks of its recipe (monitor/sink.h).
//
// A line of metrics.jsonl stands for a step at which training is logged or something is evaluated. It has, from step 1 on,
// training_loss, l2_grads, l2_params, l2_updates, lr, the objective's (all of that step's update), img/sec, img/sec/core,
// input_wait, input/<stage>, uptime, examples_seen, epoch (and of a mixture examples_seen/<set>, epoch/<set>); then
// <evaluator>/<score> (prec@1, prec@5 and loss of classification) and /count. img/sec and input_wait (the share of the time
// spent waiting for input) are over the steps since the line before, evaluations and saves left out; input/<stage> is what each
// stage of the input took of its threads' working time; uptime is in seconds and goes on over restarts. All but these are a
// function of recipe and data.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "monitor/console.h"
#include "monitor/metrics.h"
#include "monitor/sinks.h"
#include "recipe/recipe.h"
#include "state/progress.h"
#include "train/evaluate.h"

namespace tessera::train {

using NamedScores = std::vector<std::pair<std::string, Scores>>;

class Reporter {
  using Clock = std::chrono::steady_clock;

 public:
  Reporter(const recipe::Recipe& recipe, const std::string& workdir, int64_t cores);

  // The run starts, and drops whatever the files hold; or it goes on from `progress`: what files say of later steps is dropped
  // (with `owed`, of this step too).
  void start() { begin_files(-1); }
  void resume(const state::Progress& progress);
  // Training proper begins: the clock of img/sec starts.
  void begin();

  // The input whose stages and sets are told of; must outlive the reporter's last call.
  void watch(const data::TrainLoader& loader) { loader_ = &loader; }
  // A step is known, and was ready at `ready`: the console's line. Cheap.
  void step(int64_t step, const state::StepMetrics& metrics, Clock::time_point ready, bool log_now,
            std::optional<int64_t> memory);
  // Time spent waiting for input.
  void waited(double seconds) { wait_ += seconds; }
  // The line of a step in metrics.jsonl (and a row of summary.csv where something was evaluated). `metrics`: nothing at step 0.
  void write(int64_t step, const std::optional<state::StepMetrics>& metrics, const NamedScores& scores);
  // An evaluation for the console; `best` is the best first score so far, before it.
  void evaluated(const std::string& name, const Scores& scores, std::optional<double> best);

  // While it lives, time does not count for img/sec. One at a time.
  class Pause {
   public:
    explicit Pause(Reporter& reporter) : reporter_(reporter) { reporter_.pause_ = Clock::now(); }
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Reporter& reporter_;
  };

  // Nothing is told any more: waits for the sinks, but not for ever (monitor/sink_thread.h).
  void finish() { sinks_.finish(); }

  double uptime() const;  // seconds, over all starts of the run
  monitor::MetricWriter& writer() { return writer_; }
  monitor::Console& console() { return console_; }

 private:
  void begin_files(int64_t kept_step);
  void begin_interval(Clock::time_point start);
  double interval_seconds() const;
  // What each stage of the input took in the interval, of all stages' time.
  std::vector<std::pair<const char*, double>> stage_shares() const;
  void add_sets(int64_t step, std::vector<monitor::Metric>& out) const;
  monitor::SummaryRow summary_of(int64_t step, const std::optional<state::StepMetrics>& metrics,
                                 const NamedScores& scores) const;
  monitor::StepLine line_of(int64_t step, const state::StepMetrics& metrics, std::optional<int64_t> memory) const;

  const recipe::Recipe& recipe_;
  const std::string workdir_;
  int64_t cores_;
  monitor::MetricWriter writer_;
  monitor::Sinks sinks_;
  monitor::Console console_;
  Clock::time_point start_ = Clock::now(), interval_ = start_;
  Clock::time_point ready_ = start_;  // when the last step that is known was
  Clock::duration paused_{};
  std::optional<Clock::time_point> pause_;
  double earlier_ = 0;  // uptime of the starts before this one
  double wait_ = 0;
  const data::TrainLoader* loader_ = nullptr;
  data::StageSeconds stages_;  // when the interval began
  int64_t interval_step_ = 0;  // at which the interval began
  double seconds_per_step_ = 0;
};

}  // namespace tessera::train
