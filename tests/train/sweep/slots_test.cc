// Which devices the runs of a sweep have.

#include "train/sweep/slots.h"

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kGpu = pjrt::Platform::kCuda, kTpu = pjrt::Platform::kTpu;

std::vector<std::string> numbers(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

// "A=1 B=2" of each slot.
std::vector<std::string> environments(const std::vector<Slot>& slots) {
  std::vector<std::string> texts;
  for (const Slot& slot : slots) {
    std::string text;
    for (const auto& [name, value] : slot.environment) text += (text.empty() ? "" : " ") + name + "=" + value;
    texts.push_back(text);
  }
  return texts;
}

TEST(AcceleratorSlots, ShareNoGpu) {
  const Accelerators gpus{kGpu, {"4", "5", "6", "7", "1"}};
  const auto text = [&](std::optional<int64_t> each, std::optional<int64_t> jobs, int64_t runs) {
    return slots_text(kGpu, accelerator_slots(gpus, each, jobs, runs));
  };
  EXPECT_EQ(text({}, {}, 100), "GPUs 4; 5; 6; 7; 1");
  EXPECT_EQ(text(2, {}, 100), "GPUs 4,5; 6,7");
  EXPECT_EQ(text(5, {}, 100), "GPUs 4,5,6,7,1");
  EXPECT_EQ(text(2, 1, 100), "GPUs 4,5");
  EXPECT_EQ(text(1, 5, 2), "GPUs 4; 5") << "there are two runs";
  EXPECT_THAT(environments(accelerator_slots(gpus, 2, {}, 100)),
              ElementsAre("CUDA_VISIBLE_DEVICES=4,5", "CUDA_VISIBLE_DEVICES=6,7"));
}

// What libtpu reads of each process; two have no chip and no port in common.
TEST(AcceleratorSlots, ShareNoTpuChip) {
  EXPECT_THAT(environments(accelerator_slots({kTpu, numbers(8)}, 4, {}, 100)),
              ElementsAre("TPU_VISIBLE_CHIPS=0,1,2,3 TPU_CHIPS_PER_PROCESS_BOUNDS=2,2,1 TPU_PROCESS_BOUNDS=1,1,1 "
                          "TPU_PROCESS_ADDRESSES=localhost:8476 TPU_PROCESS_PORT=8476 CLOUD_TPU_TASK_ID=0",
                          "TPU_VISIBLE_CHIPS=4,5,6,7 TPU_CHIPS_PER_PROCESS_BOUNDS=2,2,1 TPU_PROCESS_BOUNDS=1,1,1 "
                          "TPU_PROCESS_ADDRESSES=localhost:8477 TPU_PROCESS_PORT=8477 CLOUD_TPU_TASK_ID=0"));
  const auto two = accelerator_slots({kTpu, numbers(4)}, 2, {}, 100);
  EXPECT_EQ(slots_text(kTpu, two), "TPU chips 0,1; 2,3");
  EXPECT_THAT(environments(two)[1], HasSubstr("TPU_CHIPS_PER_PROCESS_BOUNDS=1,2,1"));
  const auto one = accelerator_slots({kTpu, numbers(4)}, {}, {}, 3);
  EXPECT_EQ(slots_text(kTpu, one), "TPU chips 0; 1; 2") << "there are three runs";
  EXPECT_THAT(environments(one)[2], HasSubstr("TPU_VISIBLE_CHIPS=2 TPU_CHIPS_PER_PROCESS_BOUNDS=1,1,1"));
  EXPECT_THAT(environments(accelerator_slots({kTpu, numbers(8)}, 8, {}, 9)), ElementsAre("")) << "all, as libtpu takes them";
  EXPECT_THAT(environments(accelerator_slots({kTpu, {}}, {}, {}, 9)), ElementsAre("")) << "chips that are not seen";
  EXPECT_THAT(environments(accelerator_slots({kTpu, {"2", "3"}, true}, 2, {}, 9))[0],
              HasSubstr("TPU_VISIBLE_CHIPS=2,3 TPU_CHIPS_PER_PROCESS_BOUNDS=1,2,1"))
      << "the machine has others";
}

TEST(AcceleratorSlots, SayWhereThereAreTooFew) {
  const auto problem = [](const Accelerators& there, std::optional<int64_t> each, std::optional<int64_t> jobs) -> std::string {
    try {
      accelerator_slots(there, each, jobs, 9);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return error.where() + ": " + error.message() + ": " + error.help();
    }
    return "";
  };
  EXPECT_THAT(problem({kGpu, {}}, 1, {}), HasSubstr("there is no GPU that this process may use"));
  EXPECT_EQ(problem({kGpu, {"0"}}, 2, {}),
            "--devices-per-run: each run has 2 GPUs, and there is 1 GPU that this process may use: give 1 or less");
  EXPECT_EQ(
      problem({kGpu, {"0", "1", "2"}}, 1, 4),
      "--jobs: 4 runs at a time with 1 GPU each don't fit the 3 GPUs that this process may use: give 3 or less: no two runs "
      "share a GPU");
  EXPECT_THAT(problem({kGpu, {"0", "1", "2"}}, 2, 2), HasSubstr("give 1 or less"));
  EXPECT_THAT(problem({kTpu, {}}, {}, 2), HasSubstr("name them: TPU_VISIBLE_CHIPS=0,1,2,3"));
  EXPECT_THAT(problem({kTpu, {}}, 1, {}), HasSubstr("there is no TPU chip that this process may use"));
  EXPECT_EQ(
      problem({kTpu, numbers(8)}, 3, {}),
      "--devices-per-run: each run has 3 TPU chips, and libtpu gives a process 1, 2, 4 or all 8 of a machine: give one of "
      "these");
  EXPECT_THAT(problem({kTpu, numbers(4)}, 2, 3), HasSubstr("give 2 or less: no two runs share a TPU chip"));
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
  options.slots = [](size_t runs) { return accelerator_slots({kGpu, numbers(5)}, 2, {}, static_cast<int64_t>(runs)); };
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
