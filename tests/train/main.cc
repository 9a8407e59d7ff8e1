// Ends as the program does (src/main.cc): a signal's test leaves a compilation running, and globals must stay for it.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  std::fflush(nullptr);
  std::_Exit(code);
}
