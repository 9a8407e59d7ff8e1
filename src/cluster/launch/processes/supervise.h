#pragma once
// The processes of a run from their start to their end, and started again.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/launch/processes/child.h"

namespace tessera::launch {

using Children = std::vector<std::unique_ptr<Child>>;

// Why they can't be started now and may be later: a host that is not reached.
struct NotNow {
  std::string why;  // a sentence without full stop; empty: a signal asked for the end meanwhile
};

// So long without a restart, and restarts are counted anew.
inline constexpr std::chrono::hours kSteadyRun{1};

// Starts all processes of a run, or throws NotNow. `attempt` counts from 0.
using StartAll = std::function<Children(int64_t attempt)>;

// Why all are to save, end and be started again although nothing is wrong, as a sentence without full stop: a host is back. Empty:
// they go on. Asked every second or so while all run, and must not wait.
using AskToRegroup = std::function<std::string()>;

// Starts them and waits until all have ended. SIGTERM, SIGHUP and SIGINT go to all of them.
//
// Returns 0 when they are done, process 0's exit code after a signal, or 130 for SIGINT and 75 for another where it came between
// two starts, the first other exit code than 75 that one of them had. Where one was killed or ended with 75 or can't be started
// now, all are started again, after 1, 2, 4 … 60 s, `restarts` times in a row at most; after that 75. Where they ran for `steady`
// or longer, the count and the pauses begin anew. `who` says in messages what is started again: "all 4".
//
// When `regroup` has a reason all get SIGTERM, and are started again at once, which does not count, where none was lost meanwhile.
Exit supervise(const StartAll& start, int64_t restarts, const std::string& who, std::chrono::milliseconds steady = kSteadyRun,
               const AskToRegroup& regroup = {});

// A name for what meets at a coordinator in that attempt, which nothing else has.
std::string run_id(int64_t attempt);

}  // namespace tessera::launch
