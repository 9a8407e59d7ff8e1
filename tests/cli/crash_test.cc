// A bug of the program: one paragraph, and a file that says what is needed to find it.

#include "cli/crash.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

void crash_in(const fs::path& folder) {
  fs::current_path(folder);
  install_crash_handler();
  crash_context().command = "tessera train broken.toml";
  crash_context().recipe = "broken.toml";
  std::thread([] { TESSERA_CHECK(1 + 1 == 3, "sum of {}", "ones"); }).join();
}

TEST(Crash, LeavesAFileWithCommandRecipeReasonAndStack) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path folder = fs::temp_directory_path() / "tessera_crash_test";
  fs::remove_all(folder);
  write_file(folder / "broken.toml", "seed = 7\n");
  EXPECT_EXIT(crash_in(folder), ::testing::ExitedWithCode(1), "This is a bug of the program, not of yours");
  std::string report;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("crash-")) report = read_file(entry.path());
  }
  EXPECT_THAT(report, HasSubstr("tessera 0."));
  EXPECT_THAT(report, HasSubstr("command: tessera train broken.toml"));
  EXPECT_THAT(report, HasSubstr("1 + 1 == 3: sum of ones"));
  EXPECT_THAT(report, HasSubstr("seed = 7"));
  EXPECT_THAT(report, HasSubstr("test_cli"));  // frames of the stack
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::cli
