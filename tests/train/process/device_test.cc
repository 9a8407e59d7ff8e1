#include "train/process/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/system/temporary_directory.h"
#include "support/paths.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// By a plugin that does not start, as libtpu does where another process has the chips.
TEST(OpenClient, NamesWhoHasTheTpu) {
  const TemporaryDirectory proc("tessera-proc");
  std::filesystem::create_directories(proc.path() + "/4711/fd");
  std::filesystem::create_symlink("/dev/accel0", proc.path() + "/4711/fd/3");
  std::ofstream(proc.path() + "/4711/cmdline") << "other";
  DeviceOptions options;
  options.plugin = testing::fake_plugin_path(6);
  const auto help = [&](pjrt::Platform platform) -> std::string {
    options.platform = platform;
    try {
      open_client(options, {}, proc.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kDevice);
      EXPECT_THAT(error.message(), HasSubstr("no room for the fake"));
      return error.help();
    }
    return "opened";
  };
  EXPECT_THAT(help(pjrt::Platform::kTpu), HasSubstr("process 4711 (other) has this machine's TPU"));
  EXPECT_THAT(help(pjrt::Platform::kCuda), Not(HasSubstr("4711")));
  ::setenv("TPU_VISIBLE_CHIPS", "0", 1);
  EXPECT_THAT(help(pjrt::Platform::kTpu), Not(HasSubstr("4711")));
  ::unsetenv("TPU_VISIBLE_CHIPS");
}

}  // namespace
}  // namespace tessera::train
