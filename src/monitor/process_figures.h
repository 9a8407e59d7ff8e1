#pragma once
// What the processes of one run say of themselves while it goes on, and <workdir>/hosts.json, where the leader keeps it: the
// newest of each, for the live page.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::monitor {

inline constexpr const char* kHostsFile = "hosts.json";

// Of the time since the figures before, where nothing else is said. What is not known is left out.
struct ProcessFigures {
  int64_t process = 0;
  std::string host;
  int64_t step = 0;
  double seen = 0;                              // when the leader heard of them, by its clock: seconds since 1970
  std::optional<double> input_wait;             // share of the time of steps
  std::optional<double> peer_wait;              // likewise: in sums, until the numbers of the last process are there
  std::optional<double> step_seconds;           // of a step, without the wait for input; all processes end a step together
  std::optional<double> cpu_used, cpu_process;  // shares of the machine's processors: of all programs, and of this process
  std::optional<double> read, written;          // bytes a second of storage, of this process
  std::optional<double> memory_used, memory_total, resident;  // bytes now: of the machine, and of this process
  std::optional<double> device_in_use, device_peak;           // bytes of the process's first device, now and at most
  std::string hangs;                                          // what holds it up, in words, as the leader heard; empty: nothing

  // Those that may be missing, by the names that files and /metrics have.
  std::vector<std::pair<const char*, std::optional<double>>> numbers() const;
};

// One line of JSON of some 300 bytes, where nothing hangs.
std::string to_json(const ProcessFigures& figures);
// Throws a data Error at `where` for what to_json() does not write.
ProcessFigures parse_process_figures(std::string_view json, const std::string& where);

struct HostFigures {
  double at = 0;                          // when it was written, by the leader's clock
  double every = 0;                       // seconds between two figures of a process
  std::vector<ProcessFigures> processes;  // those that were heard of, in their order
};

std::string to_json(const HostFigures& figures);
HostFigures parse_host_figures(std::string_view json, const std::string& where);

// A process that costs the others so much of their time holds them up. Processes that are alike wait about the same over many
// steps, since each is the last one now and then.
inline constexpr double kHoldsUp = 0.15;

// The wait by which a process differs from the others.
enum class Wait {
  kInput,  // it waits for its input more than they do, and they wait for it, not for input
  kPeers,  // it waits for other processes less than they do: it computes slowly, or does what they need not do
};

// The process that the others wait for, or the one that comes nearest to it.
struct SlowestProcess {
  int64_t process = 0;
  std::string host;
  double its = 0, others = 0;  // shares of the time, of that wait; of the others, their median
  Wait wait = Wait::kInput;

  double held_up() const { return wait == Wait::kInput ? its - others : others - its; }  // share of the others' time
  bool holds_up() const { return held_up() >= kHoldsUp; }
};
// By its wait for input where that holds the others up, since it says why; else by the wait that tells more. Nothing where
// fewer than two tell what they wait.
std::optional<SlowestProcess> slowest_process(const std::vector<ProcessFigures>& processes);
// "process 3 on host-b waits 41 % of the time for its input, the others 2 %"
std::string in_words(const SlowestProcess& slowest);

// "process 2 on host-c hangs: no batch for 12 s: reading of `a/05.png` has taken 12 s so far"
std::vector<std::string> hanging_processes(const HostFigures& figures);

// Of each process that was not heard of for three times `every`: "process 2 on host-c was last heard of 95 s ago". `now`: by the
// leader's clock.
std::vector<std::string> silent_processes(const HostFigures& figures, double now);

}  // namespace tessera::monitor
