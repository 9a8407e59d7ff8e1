#pragma once
// What a run tells: lines of metrics.jsonl and summary.csv, the console with alerts (monitor/alerts.h), and the sinks of its
// recipe (monitor/sinks/sink.h).
//
// A line of metrics.jsonl stands for a step at which training is logged or something is evaluated. It has, from step 1 on,
// training_loss, l2_grads, l2_params, l2_updates, lr, the objective's (all of that step's update), images_alike where all
// images of its batch are the same, img/sec, img/sec/core, input_wait, input/<stage>, uptime, examples_seen, epoch (and of a
// mixture examples_seen/<set>, epoch/<set>), progress (the share of the steps that are done), lr/<pattern> and momentum where
// the optimizer has them (optim/optimizer.h), core_hours, core_hours_<kind of device>, mfu, goodput, badput/<phase>
// (train/reporting/run_clock.h), z/secs/<phase>, y/hostmem/…, y/hostio/…, y/devmem/dev<n>/…, and of a run of several processes
// y/processes/…; then <evaluator>/<score> (prec@1, prec@5 and loss of classification) and /count.
//
// img/sec and input_wait (the share of the time spent waiting for input) are over the steps since the line before, evaluations,
// saves, histograms and waits for programs left out; img/sec, img/sec/core and mfu are missing where no time was measured, as
// in a line without a step of its own; input/<stage> is what each stage of the input took of its threads' working time; uptime
// is in seconds and goes on over restarts, and so do core hours, which are of steps alone. z/secs/input is what a step waited
// for its input, z/secs/step what it took besides, z/secs/transfer what the loop needed to send a batch, means over the same
// steps; z/secs/eval/<evaluator>, z/secs/histograms and z/secs/save are of those since the line before. Memory is in bytes: of
// the machine, of this process (resident), and what the plugin says of this process's devices, of eight at most. y/hostio/read
// and /written: bytes a second that storage delivered and took for this process since the line before. y/processes/slowest is
// the process that the others wait for, or that comes nearest to it: it waits most for its input (/input_wait_most, and the
// median of the others in /input_wait_others) or least for other processes (/peer_wait_least, /peer_wait_others), in lines
// before which the leader heard of others. mfu is of train/reporting/model_flops.h, where a chip's peak is known (pjrt/chip.h).
// All these, from img/sec to uptime and from core_hours to y/, are the clock's and the machine's; the others are a function of
// recipe and data.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/system/spans.h"
#include "monitor/alerts.h"
#include "monitor/console/console.h"
#include "monitor/host_usage.h"
#include "monitor/metrics.h"
#include "monitor/process_figures.h"
#include "monitor/sinks/sinks.h"
#include "pjrt/client.h"
#include "recipe/recipe.h"
#include "state/progress.h"
#include "train/evaluate/evaluate.h"
#include "train/reporting/own_figures.h"
#include "train/reporting/pace.h"
#include "train/reporting/run_clock.h"

namespace tessera::train {

using NamedScores = std::vector<std::pair<std::string, Scores>>;

class Reporter {
  using Clock = std::chrono::steady_clock;

 public:
  // `command` and `version` are of the program, for sinks.
  Reporter(const recipe::Recipe& recipe, const std::string& workdir, int64_t cores, std::string command = {},
           std::string version = {});
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // The run starts, and drops whatever the files hold; or it goes on from `progress`: what files say of later steps is dropped
  // (with `owed`, of this step too).
  // At `step`, which is not 0 where the run goes on from another one.
  void start(int64_t step) {
    interval_step_ = step;
    begin_files(-1);
  }
  // `last_save`: seconds of the save that made the checkpoint, where the run stopped with it: the next line tells of it.
  void resume(const state::Progress& progress, double last_save = 0);
  // The run was finished before: what sinks lack of it they get now. What they write to may have been away, or a kill came
  // between the last checkpoint and their thread. To be called alone.
  void catch_up(const state::Progress& progress);
  // The client whose devices' memory, kind and peak speed are reported. It must outlive the reporter's last call.
  void watch(const pjrt::Client& client);
  // Training proper begins: the clock of img/sec starts.
  void begin();

  // The input whose stages and sets are reported; must outlive the last write().
  void watch(const data::TrainLoader& loader) { loader_ = &loader; }
  // Who of several processes is the slowest, where there is news of it; does not wait.
  void watch(std::function<std::optional<monitor::SlowestProcess>()> slowest) { slowest_process_ = std::move(slowest); }
  // To be called ahead of the first step: the seconds so far that this process waited for others in sums.
  void watch_peers(std::function<double()> waited);
  // How far step() has come, for other threads.
  std::shared_ptr<const LoopTime> loop_time() const { return loop_time_; }
  // A step is known, and was ready at `ready`: the console's line. Cheap.
  void step(int64_t step, const state::StepMetrics& metrics, Clock::time_point ready, bool log_now,
            std::optional<int64_t> memory);
  // Time spent waiting for input.
  void waited(double seconds);
  // The line of a step in metrics.jsonl (and a row of summary.csv where something was evaluated). `metrics`: nothing at step 0.
  void write(int64_t step, const std::optional<state::StepMetrics>& metrics, const NamedScores& scores);
  // An evaluation after `step` for the console; `best` is the best first score so far, before it.
  void evaluated(const std::string& name, int64_t step, const Scores& scores, std::optional<double> best);

  // While it lives, time does not count for img/sec. One at a time.
  class Pause {
   public:
    explicit Pause(Reporter& reporter) : reporter_(reporter) {
      reporter_.pause_ = Clock::now();
      if (reporter_.waited_for_peers_) reporter_.peers_at_pause_ = reporter_.waited_for_peers_();
    }
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Reporter& reporter_;
  };

  // While it lives, time counts for a phase of RunTimes (none: null), and as z/secs/<name> (none: empty), and it is a phase of
  // profiles. They don't nest.
  class Timed {
   public:
    Timed(Reporter& reporter, double state::RunTimes::*phase, std::string name = {})
        : reporter_(reporter), phase_(phase), name_(std::move(name)), span_(lasting_name(name_.empty() ? "start" : name_)) {}
    ~Timed();
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    Reporter& reporter_;
    double state::RunTimes::*phase_;
    std::string name_;
    PhaseSpan span_;
    Clock::time_point start_ = Clock::now();
  };
  state::RunTimes times() const { return clock_.times(); }

  // What sinks get besides the lines: nothing where the recipe names none.
  monitor::Sinks& sinks() const { return *sinks_; }
  // The last call. Waits until the sinks have written, for a bounded time (monitor/sinks/sink_thread.h).
  void finish(const monitor::RunEnd& end);

  double uptime() const;  // seconds, over all starts of the run
  monitor::MetricWriter& writer() { return writer_; }
  monitor::Console& console() { return console_; }

 private:
  void begin_files(int64_t kept_step);
  void begin_sinks(int64_t kept_step);
  bool in_epochs() const;
  bool shows(const std::string& score) const;
  bool evaluates_at(int64_t step) const;
  std::optional<double> table_epoch(int64_t step) const;
  bool ends_row(int64_t step, bool log_now) const;
  void begin_interval(Clock::time_point start);
  double interval_seconds() const;
  // What each stage of the input took in the interval, of all stages' time.
  std::vector<std::pair<const char*, double>> stage_shares() const;
  void add_sets(int64_t step, std::vector<monitor::Metric>& out) const;
  monitor::SummaryRow summary_of(int64_t step, const std::optional<state::StepMetrics>& metrics,
                                 const NamedScores& scores) const;
  void add_clocks(const monitor::StepLine& line, std::vector<monitor::Metric>& out) const;
  void add_timings(std::vector<monitor::Metric>& out);
  void add_memory(std::vector<monitor::Metric>& out);
  void add_traffic(std::vector<monitor::Metric>& out);
  void add_processors(std::vector<monitor::Metric>& out);
  void add_processes(std::vector<monitor::Metric>& out);
  monitor::StepLine line_of(int64_t step, const state::StepMetrics& metrics, std::optional<int64_t> memory) const;

  const recipe::Recipe& recipe_;
  const std::string workdir_;
  int64_t cores_;
  const std::string command_, version_;
  monitor::MetricWriter writer_;
  monitor::Alerts alerts_;
  const std::shared_ptr<monitor::Sinks> sinks_ = std::make_shared<monitor::Sinks>();  // the listener's of warnings too
  monitor::Console console_;
  Clock::time_point start_ = Clock::now(), interval_ = start_;
  Clock::time_point ready_ = start_;  // when the last step that is known was
  Clock::duration paused_{};
  std::optional<Clock::time_point> pause_;
  double earlier_ = 0;  // uptime of the starts before this one
  double wait_ = 0;
  double earlier_seconds_ = 0, earlier_wait_ = 0;  // of the intervals of this start before this one
  const std::shared_ptr<LoopTime> loop_time_ = std::make_shared<LoopTime>();
  std::function<std::optional<monitor::SlowestProcess>()> slowest_process_;
  std::function<double()> waited_for_peers_;
  double peers_at_pause_ = 0, peers_paused_ = 0;  // of it: so far, and what is not of steps
  const data::TrainLoader* loader_ = nullptr;
  data::StageSeconds stages_;  // when the interval began
  int64_t interval_step_ = 0;  // at which the interval began
  Pace pace_;
  RunClock clock_{monitor::time_now()};
  struct Timing {
    double seconds = 0;
    int64_t count = 0;
  };
  std::vector<std::pair<std::string, Timing>> timings_;  // z/secs/<name> since the line before, in the order they came
  std::optional<monitor::HostTraffic> traffic_ = monitor::host_traffic();         // at the line before, of this process
  std::optional<monitor::ProcessorTime> processors_ = monitor::processor_time();  // likewise
  Clock::time_point traffic_at_ = start_;
  const pjrt::Client* client_ = nullptr;
  double flops_per_image_ = 0, peak_flops_ = 0;  // of a device, a second; 0: not known
};

}  // namespace tessera::train
