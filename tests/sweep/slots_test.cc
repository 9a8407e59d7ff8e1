// Which devices the runs of a sweep have.

#include "sweep/slots.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::sweep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(GpuSlots, ShareNoGpu) {
  const std::vector<std::string> gpus{"4", "5", "6", "7", "1"};
  EXPECT_EQ(gpus_text(gpu_slots(gpus, 1, {}, 100)), "4; 5; 6; 7; 1");
  EXPECT_EQ(gpus_text(gpu_slots(gpus, 2, {}, 100)), "4,5; 6,7");
  EXPECT_EQ(gpus_text(gpu_slots(gpus, 5, {}, 100)), "4,5,6,7,1");
  EXPECT_EQ(gpus_text(gpu_slots(gpus, 2, 1, 100)), "4,5");
  EXPECT_EQ(gpus_text(gpu_slots(gpus, 1, 5, 2)), "4; 5") << "there are two runs";
  EXPECT_EQ(gpu_slots(gpus, 2, {}, 100)[1].environment[0].name, "CUDA_VISIBLE_DEVICES");
}

TEST(GpuSlots, SayWhereGpusAreTooFew) {
  const auto problem = [](const std::vector<std::string>& gpus, int64_t each, std::optional<int64_t> jobs) -> std::string {
    try {
      gpu_slots(gpus, each, jobs, 9);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return error.where() + ": " + error.message() + ": " + error.help();
    }
    return "";
  };
  EXPECT_THAT(problem({}, 1, {}), HasSubstr("there is no GPU that this process may use"));
  EXPECT_EQ(problem({"0"}, 2, {}),
            "--devices-per-run: each run has 2 devices, and there is 1 GPU that this process may use: give 1 or less");
  EXPECT_EQ(
      problem({"0", "1", "2"}, 1, 4),
      "--jobs: 4 runs at a time with 1 GPU each don't fit the 3 GPUs that this process may use: give 3 or less: no two runs "
      "share a GPU");
  EXPECT_THAT(problem({"0", "1", "2"}, 2, 2), HasSubstr("give 1 or less"));
}

// Each run notes its GPUs and fails where another has one of them; the first one is killed while it has them.
TEST(RunSweep, GivesTheGpusOfARunThatEndedToTheNextOne) {
  std::string folder = (fs::temp_directory_path() / "tessera_slots_XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(folder.data()));
  constexpr const char* kRun = R"(echo "$2 $CUDA_VISIBLE_DEVICES" >> "$1/started"
mkdir "$1/held $CUDA_VISIBLE_DEVICES" || exit 3
rmdir "$1/held $CUDA_VISIBLE_DEVICES"
test "$2" != seed=0 || kill -9 $$)";
  SweepOptions options;
  options.program = "/bin/sh";
  options.command = {"-c", kRun, "sh", folder};
  for (const char* seed : {"0", "1", "2", "3", "4"}) options.variants.push_back({{"seed", seed}});
  options.word = [](const std::string& key, const std::string& value) { return key + ("=" + value); };
  options.directory = folder + "/sweep";
  options.slots = [](size_t runs) { return gpu_slots({"0", "1", "2", "3", "4"}, 2, {}, static_cast<int64_t>(runs)); };
  SweepRecord record;
  const SweepResult result = run_sweep(options, record);
  ASSERT_EQ(result.trials.size(), 5u);
  EXPECT_EQ(result.trials[0].ending, Ending::kFailed);
  EXPECT_THAT(result.trials[0].problem, HasSubstr("killed"));
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(result.trials[i].ending, Ending::kDone) << i << result.trials[i].problem;
  std::map<std::string, std::string> gpus;
  std::ifstream started(folder + "/started");
  for (std::string run, of; started >> run >> of;) gpus[run] = of;
  EXPECT_EQ(gpus.size(), 5u);
  EXPECT_EQ(gpus["seed=0"], "0,1");
  EXPECT_EQ(gpus["seed=1"], "2,3");
  for (const auto& [run, of] : gpus) EXPECT_THAT(of, ::testing::AnyOf("0,1", "2,3")) << run;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::sweep
