// libtpu and the CUDA plugin are where ./dev plan-deps put them; nothing is skipped where they are missing.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "pjrt/plugin/stderr_filter.h"
#include "support/paths.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::setenv("TESSERA_PLAN_ENV", tessera::testing::source_path(".deps/plan").c_str(), 1);
  ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 1);  // several of these tests run at once
  tessera::pjrt::capture_stderr();
  const int code = RUN_ALL_TESTS();
  std::fflush(stdout);
  ::_exit(code);  // plugins do not survive the end of a process in an orderly way
}
