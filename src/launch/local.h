#pragma once
// Several processes of one run on this machine, started again when one of them is lost.

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::launch {

struct LocalOptions {
  int64_t processes = 2;
  int64_t restarts = 10;             // at most, in a row
  std::string coordinator;           // of an etcd that runs; empty: one of this launch's own
  std::vector<std::string> command;  // the program's words: "train", "recipes/digits.toml", …
};

// Starts the program of this process so many times, each with its place in the environment (TESSERA_NUM_PROCESSES,
// TESSERA_PROCESS_ID, TESSERA_COORDINATOR_ADDRESS, TESSERA_RUN_ID) and its share of the processors. Process 0 has the terminal; what
// the others say is shown with their number. SIGTERM, SIGHUP and SIGINT go to all of them.
//
// Returns when all have ended: with 0 when they are done, with process 0's exit code after a signal, with the first other exit code
// than 75 that one of them had. Where one was killed or ended with 75, all are started again, later each time. Device Error where
// nothing can be started.
Exit run_local(const LocalOptions& options);

}  // namespace tessera::launch
