// Ends as the program does (src/cli/program/main.cc): a signal's test leaves a compilation running, and globals must stay for it.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // of a connection that another process has closed
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  std::fflush(nullptr);
  std::_Exit(code);
}
