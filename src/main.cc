#include <cstdio>
#include <cstdlib>

#include "cli/cli.h"

int main(int argc, char** argv) {
  const int code = tessera::cli::run(argc, argv);
  // Nothing is left to do, and a plugin may still be compiling a program that a signal made needless: its globals must stay.
  std::fflush(nullptr);
  std::_Exit(code);
}
