#pragma once
// How much of a run's time was productive (its goodput), and what took the rest.

#include <chrono>
#include <optional>
#include <vector>

#include "monitor/metrics.h"
#include "state/run_times.h"

namespace tessera::train {

inline double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

class RunClock {
 public:
  using Clock = std::chrono::steady_clock;

  // `now`: when the program started, by both clocks.
  explicit RunClock(double unix_time, Clock::time_point now = Clock::now());

  // The run goes on from a checkpoint that says `saved`, taken `seconds` into the run; what metrics.jsonl has of it goes on
  // until `last_uptime`. Before anything is added.
  void resume(const state::RunTimes& saved, double seconds, double last_uptime);
  // The first step of this start begins: what was not of another phase until now was init.
  void begin(Clock::time_point now = Clock::now());
  void add(double state::RunTimes::*phase, double seconds);

  // Up to now.
  state::RunTimes times(Clock::time_point now = Clock::now()) const;

 private:
  state::RunTimes times_;
  Clock::time_point start_;
  std::optional<Clock::time_point> begin_;
  double before_ = 0, since_ = 0;  // what was added before begin(), and since
};

// goodput, and badput/<phase> of every other phase of RunTimes, as shares of the time since the run's first start; they sum to 1.
// badput/recovery is what no start of the run accounts for: the time between starts, and work of killed ones that left no line.
std::vector<monitor::Metric> goodput(const state::RunTimes& times, double unix_time);

}  // namespace tessera::train
