#include "pjrt/tpu_chips.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_directory.h"

namespace tessera::pjrt {
namespace {

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

}  // namespace
}  // namespace tessera::pjrt
