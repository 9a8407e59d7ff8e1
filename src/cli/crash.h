#pragma once
// What happens when the program meets a bug of its own: one paragraph on the terminal and a file with everything needed to
// report it. Nothing is sent anywhere.

#include <string>

namespace tessera::cli {

// What the crash file says besides version, plugin noise and stack. Set by whoever knows it.
struct CrashContext {
  std::string command;  // the command line
  std::string recipe;   // path of the recipe; its text is put into the file
};
CrashContext& crash_context();

// From now on an exception that nobody catches (InternalError above all) writes `crash-<time>.txt` into the working directory,
// or /tmp where that can't be written, says so, and ends the process with exit code 1. The stack is that of the throw.
void install_crash_handler();

}  // namespace tessera::cli
