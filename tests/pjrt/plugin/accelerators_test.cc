#include "pjrt/plugin/accelerators.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system/temporary_directory.h"

namespace tessera::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TpuChips, AreGooglesDevicesThatAreNoNetworkCards) {
  const TemporaryDirectory bus("tessera-pci");
  EXPECT_EQ(tpu_chips(bus.path()), 0);
  EXPECT_EQ(tpu_chips(bus.path() + "/absent"), 0);
  const auto add = [&](const std::string& place, const char* vendor, const char* device) {
    std::filesystem::create_directory(bus.path() + "/" + place);
    std::ofstream(bus.path() + "/" + place + "/vendor") << vendor << "\n";
    std::ofstream(bus.path() + "/" + place + "/device") << device << "\n";
  };
  add("0000:00:01.0", "0x8086", "0x0063");
  add("0000:00:02.0", "0x1ae0", "0x0042");  // gVNIC, which every machine there has
  std::filesystem::create_directory(bus.path() + "/0000:00:03.0");
  EXPECT_EQ(tpu_chips(bus.path()), 0);
  add("0000:00:04.0", "0x1ae0", "0x0063");
  add("0000:00:05.0", "0x1ae0", "0x0063");
  EXPECT_EQ(tpu_chips(bus.path()), 2);
}

void make_file(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "x";
}

TEST(NvidiaGpus, AreThoseOfTheDriversDevices) {
  const TemporaryDirectory devices("tessera-dev");
  EXPECT_EQ(nvidia_gpus(devices.path() + "/absent"), 0);
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia", "null"})
    make_file(devices.path() + "/" + name);
  EXPECT_EQ(nvidia_gpus(devices.path()), 0);
  for (const char* name : {"nvidia0", "nvidia11"}) make_file(devices.path() + "/" + name);
  EXPECT_EQ(nvidia_gpus(devices.path()), 2);
}

TEST(PlatformChoice, IsTheFastestThatIsThereAndHasAPlugin) {
  const TemporaryDirectory place("tessera-plugins");
  const PluginPlaces places{.program_directory = place.path() + "/bin", .libraries = {place.path() + "/lib"}};
  const auto choice = [&](int chips, int gpus) { return choose_platform(chips, gpus, places); };
  EXPECT_EQ(choice(0, 0).platform, Platform::kCpu);
  EXPECT_EQ(choice(0, 0).missing, "");
  EXPECT_EQ(choice(0, 0).why, "this machine has no TPU or GPU");
  EXPECT_EQ(choice(0, 2).why, "") << "what is missing is said instead";
  EXPECT_EQ(choice(0, 2).platform, Platform::kCpu);
  EXPECT_THAT(choice(0, 2).missing, ::testing::AllOf(::testing::HasSubstr("this machine has 2 GPUs, and no plugin for it"),
                                                     ::testing::HasSubstr("pip install 'jax-cuda13-plugin")));
  make_file(place.path() + "/bin/xla_cuda_plugin.so");
  EXPECT_EQ(choice(0, 1).platform, Platform::kCuda);
  EXPECT_EQ(choice(0, 1).why, "this machine has 1 GPU");
  EXPECT_EQ(choice(4, 1).platform, Platform::kCuda) << "no plugin for TPUs";
  make_file(place.path() + "/lib/libtpu.so");
  EXPECT_EQ(choice(4, 1).platform, Platform::kTpu);
  EXPECT_EQ(choice(4, 1).why, "this machine has 4 TPU chips");
  EXPECT_EQ(choice(0, 0).platform, Platform::kCpu) << "a plugin alone is no device";
}

TEST(VisibleGpus, AreThoseOfTheMachineOrOfTheVariable) {
  EXPECT_THAT(visible_accelerators(nullptr, 3), ElementsAre("0", "1", "2"));
  EXPECT_THAT(visible_accelerators("6, 2,GPU-8f1c", 8), ElementsAre("6", "2", "GPU-8f1c"));
  EXPECT_THAT(visible_accelerators("1,-1,0", 8), ElementsAre("1"));
  EXPECT_THAT(visible_accelerators("", 8), IsEmpty());
  EXPECT_THAT(visible_accelerators("-1", 8), IsEmpty());
}

TEST(VisibleGpus, AreDividedOverTheProcessesOfAMachine) {
  const auto range = [](int64_t gpus, int64_t process, int64_t processes) {
    const GpuRange own = gpus_of_process(gpus, process, processes);
    return std::pair(own.begin, own.end);
  };
  EXPECT_EQ(range(4, 0, 2), std::pair(int64_t{0}, int64_t{2}));
  EXPECT_EQ(range(4, 1, 2), std::pair(int64_t{2}, int64_t{4}));
  EXPECT_EQ(range(4, 3, 4), std::pair(int64_t{3}, int64_t{4}));
  for (const auto& [few, processes] : {std::pair(4, 3), std::pair(0, 2)}) {
    try {
      gpus_of_process(few, 0, processes);
      FAIL() << processes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      EXPECT_THAT(error.message(), ::testing::HasSubstr(fmt::format("can't be divided over {} processes", processes)));
    }
  }
}

}  // namespace
}  // namespace tessera::pjrt
