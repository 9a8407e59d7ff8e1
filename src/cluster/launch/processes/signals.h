#pragma once
// The signals that a program passes on to the processes it started.

#include <chrono>
#include <csignal>

#include "base/error.h"

namespace tessera::launch {

// What a program ends with that one of them asked to end, once its processes have saved.
Exit exit_after(int signal);

// SIGTERM, SIGHUP, SIGINT and SIGCHLD wait while one lives; what was blocked before is blocked afterwards.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // The next of them, or that a process ended (SIGCHLD); 0 after `patience`.
  struct Signal {
    int number = 0;
    bool from_terminal = false;  // which sends it to all processes of its group
  };
  static Signal wait(std::chrono::nanoseconds patience);
  // The same without SIGCHLD.
  static Signal wait_for_request(std::chrono::nanoseconds patience);
  // Whether wait_for_request() would have one at once.
  static bool requested();

 private:
  sigset_t before_;
};

}  // namespace tessera::launch
