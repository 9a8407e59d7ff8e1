// Programs with a smaller one to take their place where the device has too little memory.

#include "train/step/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "store/temp_dir.h"
#include "support/paths.h"
#include "train/process/device.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;

TEST(Compile, LeavesAFifthOfTheMemoryToTheRest) {
  const auto fits = [](int64_t peak) { return fits_with_the_rest({.arguments = 0, .outputs = 0, .peak = peak}, 1000); };
  EXPECT_TRUE(fits(800));
  EXPECT_FALSE(fits(801));
  EXPECT_FALSE(fits_with_the_rest({.arguments = 600, .outputs = 600, .aliased = 300, .peak = 0}, 1000))
      << "900 at once for certain";
}

// Writes so many GiB; it is never run.
Program program_of(int64_t gib, const std::string& name) {
  return {.name = name,
          .text = "module @" + name + " { func.func @main() -> tensor<" + std::to_string(gib) +
                  "x268435456xf32> { %0 = stablehlo.iota dim = 0 : tensor<" + std::to_string(gib) +
                  "x268435456xf32> return %0 : tensor<" + std::to_string(gib) + "x268435456xf32> } }"};
}

std::shared_ptr<pjrt::Client> client_of_16_gib() {
  TESSERA_CHECK(::setenv("WRAPPED_PLUGIN", testing::cpu_plugin_path().c_str(), 1) == 0);
  DeviceOptions options;
  options.plugin = testing::fake_plugin_path(7);
  options.platform = pjrt::Platform::kCpu;
  return open_client(options);
}

TEST(Compile, TakesTheSmallerProgramWhereTheFirstDoesNotFit) {
  const auto client = client_of_16_gib();
  const pjrt::ExecutableCache off("");
  const auto outputs = [&](const Program& program) {
    ::testing::internal::CaptureStderr();
    const int64_t bytes = compile(*client, program, off, {}).executable.memory().outputs;
    return std::pair{bytes >> 30, ::testing::internal::GetCapturedStderr()};
  };
  Program fits = program_of(12, "fits"), too_large = program_of(13, "too_large");
  EXPECT_EQ(outputs(too_large).first, 13) << "there is nothing else";
  fits.smaller = too_large.smaller = std::make_shared<const Program>(program_of(1, "small"));
  EXPECT_EQ(outputs(fits), (std::pair<int64_t, std::string>{12, ""}));
  const auto [gib, note] = outputs(too_large);
  EXPECT_EQ(gib, 1);
  EXPECT_THAT(note, HasSubstr("the backward pass computes them again"));
}

TEST(Compile, KeepsNoProgramThatDoesNotFit) {
  const auto client = client_of_16_gib();
  const testing::TempDir directory;
  const pjrt::ExecutableCache cache(directory / "cache");
  Program program = program_of(13, "too_large");
  program.smaller = std::make_shared<const Program>(program_of(1, "small"));
  EXPECT_FALSE(compile(*client, program, cache, {}).report.cached);
  const auto kept = [&](const Program& of) {
    return cache.find(pjrt::cache_key(*client, of.text, compile_options(*client, of))).payload.has_value();
  };
  EXPECT_FALSE(kept(program)) << "it could be loaded without a word of what it takes";
  EXPECT_TRUE(kept(*program.smaller));
  EXPECT_TRUE(compile(*client, program, cache, {}).report.cached);
}

}  // namespace
}  // namespace tessera::train
