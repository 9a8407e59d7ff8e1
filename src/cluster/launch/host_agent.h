#pragma once
// What a launch runs on each of its hosts: `tessera launch host`. It starts one process and ends it when the launching machine
// says so or is not heard of any more, so that a lost connection leaves nothing behind that nobody knows of.
//
// Through stdin come lines. The first is a JSON object, a HostRequest; then "signal 15" sends a signal to the process, and an empty
// line says that the launching machine is there. After the end of stdin, or kSilence without a line, the process gets SIGTERM, and
// SIGKILL kGrace later. What the process says goes to stdout.

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/launch/processes/plan.h"

namespace tessera::launch {

inline constexpr std::chrono::seconds kHeartbeat{5}, kSilence{60};
inline constexpr std::chrono::minutes kGrace{10};  // for the last checkpoint

struct HostRequest {
  // An etcd at that address of the host, for all processes of the run, instead of a process. "@etcd HOST:PORT" is said when it
  // answers. After the end of stdin it stays until those who met there have left. Where it dies before, that is said, and the exit
  // code is 75.
  std::string etcd;
  std::string key;        // of that etcd: who has it is answered
  std::string run;        // its id, of those who meet at the etcd
  std::string directory;  // where the process runs
  std::vector<Variable> environment;
  std::vector<std::string> command;  // without the program's own name
  // A file that is locked while the process runs: one that an earlier launch left behind is waited for, until a signal comes.
  std::string lock;
};
std::string to_line(const HostRequest& request);

// The exit code is that of the process, 128 and the number of the signal where one killed it.
Exit run_host_agent();

}  // namespace tessera::launch
