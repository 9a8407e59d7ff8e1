#include "train/reporting/run_clock.h"

#include <algorithm>
#include <string>

namespace tessera::train {
namespace {

// Of all phases.
double sum(state::RunTimes times) {
  double all = 0;
  times.visit([&](const char*, double& seconds) {
    if (&seconds != &times.started) all += seconds;
  });
  return all;
}

}  // namespace

RunClock::RunClock(double unix_time, Clock::time_point now) : start_(now) { times_.started = unix_time; }

void RunClock::resume(const state::RunTimes& saved, double seconds, double last_uptime) {
  const double now = times_.started;
  times_ = saved;
  if (times_.started == 0) {  // older checkpoints say nothing
    times_.started = now - seconds;
    times_.step = seconds;
  }
  times_.wasted += std::max(0.0, last_uptime - seconds);
}

void RunClock::add(double state::RunTimes::*phase, double seconds) {
  times_.*phase += seconds;
  (begin_ ? since_ : before_) += seconds;
}

void RunClock::begin(Clock::time_point now) {
  begin_ = now;
  times_.init += std::max(0.0, seconds_of(now - start_) - before_);
}

state::RunTimes RunClock::times(Clock::time_point now) const {
  state::RunTimes times = times_;
  if (begin_) times.step += std::max(0.0, seconds_of(now - *begin_) - since_);
  return times;
}

std::vector<monitor::Metric> goodput(const state::RunTimes& times, double unix_time) {
  // The clock may have been set back.
  const double known = sum(times), total = std::max({unix_time - times.started, known, 1e-9});
  std::vector<monitor::Metric> out = {{"goodput", times.step / total}};
  state::RunTimes all = times;
  all.visit([&](const char* name, double& seconds) {
    if (&seconds != &all.started && &seconds != &all.step) out.push_back({std::string("badput/") + name, seconds / total});
  });
  out.push_back({"badput/recovery", (total - known) / total});
  return out;
}

}  // namespace tessera::train
