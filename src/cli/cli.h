#pragma once
// The command line: one file for each subcommand, dispatched here.

namespace tessera::cli {

// Runs the program; gives its exit code (base/error.h, Exit).
int run(int argc, char** argv);

}  // namespace tessera::cli
