#pragma once
// What a launch would run: made before anything is started, shown by --dry-run, and carried out by the launcher that made it.

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::launch {

struct Variable {
  std::string name, value;
};

// One process of a run: what runs on one host.
struct ProcessPlan {
  std::string host;                   // as messages call it: "process 1", "tpu-host-3"
  std::vector<Variable> environment;  // beside what the host has
  std::vector<std::string> command;   // words; the first is a program
  // Of a host elsewhere: words that run a command there, which is put behind the last; and where it runs.
  std::vector<std::string> shell;
  std::string directory;
};

// A file that every host gets.
struct CopiedFile {
  std::string name;  // where it lies on a host, below a directory of the launch: "bin/tessera"
  std::string from;  // the file here
};

struct Plan {
  std::vector<std::string> notes;  // what is done beside, one line each
  std::vector<CopiedFile> files;
  std::string written;  // a file for a scheduler, in which # begins a comment; empty: none
  std::vector<ProcessPlan> processes;
  std::vector<std::string> submit;  // words that hand `written` over, as their input
};

// Placeholders in a plan for what is known only when it is carried out.
inline constexpr const char* kPort = "PORT";  // a free one
inline constexpr const char* kRun = "RUN";    // another one for each start
inline constexpr const char* kKey = "KEY";    // of this launch alone
// In the place of values that a plan doesn't show, since they may be passwords.
inline constexpr const char* kHidden = "…";

// The etcd where processes meet.
struct Coordinator {
  std::string address;  // HOST:PORT
  std::string key;      // of TLS with it (cluster/group/run_key.h); empty: plain
};
// As plans show it: without the key itself.
Coordinator shown(Coordinator coordinator);

// The place of one process, as `tessera train` reads it: TESSERA_NUM_PROCESSES, TESSERA_PROCESS_ID, TESSERA_COORDINATOR_ADDRESS,
// TESSERA_RUN_ID, and TESSERA_COORDINATOR_KEY where there is one.
std::vector<Variable> place_variables(int64_t process, int64_t count, const Coordinator& coordinator, const std::string& run);
// Of these, what all processes of a run have alike.
std::vector<Variable> meeting_variables(const Coordinator& coordinator, const std::string& run);

// For a person, as shell words: notes and names of hosts are comments.
std::string to_text(const Plan& plan);
// Words as a shell takes them.
std::string command_line(const std::vector<std::string>& words);

}  // namespace tessera::launch
