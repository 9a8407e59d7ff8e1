#include "state/run_steps.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "store/temp_dir.h"

namespace tessera::state {
namespace {

namespace fs = std::filesystem;

TEST(RunSteps, ASaveThatHasNotEndedIsNone) {
  const testing::TempDir run;
  EXPECT_FALSE(saved_steps(run.path()));
  const auto make = [&](const std::string& name, bool committed) {
    const fs::path directory = fs::path(run.path()) / "checkpoints" / name;
    fs::create_directories(directory);
    std::ofstream(directory / "state.json") << "{}";
    if (committed) std::ofstream(directory / "COMMIT") << "{}";
  };
  make("step_000000200", true);
  make("step_000000100", true);
  make("step_000000300", false);  // of several processes, which write under the last names
  make("step_000000400.tmp-4711", true);
  make("step_000000050.damaged", true);
  EXPECT_EQ(saved_steps(run.path()), (std::vector<int64_t>{100, 200}));
}

}  // namespace
}  // namespace tessera::state
