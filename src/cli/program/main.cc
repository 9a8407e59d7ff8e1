#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/cli.h"

int main(int argc, char** argv) {
  // A reader that is gone (`tessera train | head`) and a file that may not grow (ulimit -f) are errors of a write, not the end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = tessera::cli::run(argc, argv);
  // Nothing is left to do, but other threads may still be at work: a plugin that compiles a program, or a file that is read or
  // decoded, which a signal made needless. What they use must stay, the globals too.
  std::fflush(nullptr);
  std::_Exit(code);
}
