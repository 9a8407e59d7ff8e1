#pragma once
// What happens when the program meets a bug of its own: one paragraph on the terminal and a file with everything needed to
// report it. Nothing is sent anywhere.

#include <string>

namespace tessera::cli {

// What the crash file says besides version, plugin noise and stack. Set by whoever knows it.
struct CrashContext {
  std::string command;  // the command line
  std::string recipe;   // path of the recipe; its text is put into the file
  std::string workdir;  // of the run, where there is one: the file is written there
};
CrashContext& crash_context();

// From now on an exception that nobody catches (InternalError above all) writes `crash-<time>.txt` into the run's directory or,
// where there is none or it can't be written, a file with a random name into $TMPDIR, else /tmp; says so, and ends the process
// with exit code 1. The file is new, whatever lies there, and the user's alone (mode 0600): recipe and plugin may say what is
// nobody else's business. The stack is that of the throw.
void install_crash_handler();

}  // namespace tessera::cli
