#include "pjrt/chip.h"

#include <gtest/gtest.h>

namespace tessera::pjrt {
namespace {

TEST(Chip, IsKnownByWhatPluginsCallTheirDevices) {
  for (const auto& [device, chip] : {std::pair{"TPU v2", "v2"},
                                     {"TPU v5 lite", "v5e"},
                                     {"TPU v5", "v5p"},
                                     {"TPU v6 lite", "v6e"},
                                     {"NVIDIA H200", "h200"},
                                     {"NVIDIA H100 80GB HBM3", "h100"},
                                     {"NVIDIA A100-SXM4-80GB", "a100"}}) {
    ASSERT_NE(chip_of_device(device), nullptr) << device;
    EXPECT_STREQ(chip_of_device(device)->name, chip);
  }
  for (const char* device : {"cpu", "", "TPU v4 lite", "NVIDIA GeForce RTX 4090"})
    EXPECT_EQ(chip_of_device(device), nullptr) << device;
}

}  // namespace
}  // namespace tessera::pjrt
