#pragma once
// Hosts that a run goes on without: whether they are back, so that it may be made larger.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/processes/child.h"
#include "cluster/launch/remote_host.h"

namespace tessera::launch {

struct ReturnPauses {
  // From the start of a run to the first look. Twice as long after hosts that were taken in and lost again before `kept`, so that
  // one that comes and goes can't keep the run from getting on; at most `longest_settle`.
  std::chrono::milliseconds settle = std::chrono::minutes(5), longest_settle = std::chrono::hours(1),
                            kept = std::chrono::hours(1);
  // From the end of a look to the next one, twice as long each time.
  std::chrono::milliseconds between = std::chrono::seconds(30), longest_between = std::chrono::minutes(5);
  std::chrono::milliseconds answer = std::chrono::minutes(1);  // who takes longer is not back
};

// Looks at the hosts now and then, by commands beside the run. Nothing here waits. All of it is for one thread, which has to live
// as long (cluster/launch/processes/child.h).
class ReturningHosts {
 public:
  using Clock = std::chrono::steady_clock;

  // Who is back has `directory`.
  explicit ReturningHosts(std::string directory, ReturnPauses pauses = {});

  // A start of the run, with so many processes and without these hosts, which outlive it.
  void begin(std::vector<const RemoteHost*> without, int64_t processes, Clock::time_point now);
  // To be called every second or so while it runs. Those that are back, once for each look, when it is over.
  std::vector<const RemoteHost*> look(Clock::time_point now);
  // Whether a look is under way.
  bool looking() const { return !looks_.empty(); }
  // The next start is to take them in.
  void take_in() { taking_in_ = true; }

 private:
  // How long this start runs undisturbed, by what became of the one before.
  void settle(int64_t processes, Clock::time_point now);
  void begin_look(Clock::time_point now);
  void end_look(Clock::time_point now);

  const std::string directory_;
  const ReturnPauses pauses_;
  std::chrono::milliseconds settle_ = pauses_.settle, between_ = pauses_.between;
  bool taking_in_ = false;
  // Of the last start: its processes, when it was, and whether it took hosts in.
  int64_t processes_ = 0;
  Clock::time_point started_;
  bool took_in_ = false;
  Clock::time_point next_look_, look_began_;
  std::vector<const RemoteHost*> without_;
  std::vector<std::unique_ptr<Child>> looks_;  // at each of them, while a look is under way
};

}  // namespace tessera::launch
