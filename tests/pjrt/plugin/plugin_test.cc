#include "pjrt/plugin/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "pjrt/pjrt_testing.h"
#include "pjrt/plugin/call.h"
#include "pjrt/plugin/cuda_toolkit.h"
#include "pjrt/plugin/error.h"
#include "support/paths.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An empty directory of the test's own.
class PluginSearch : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("tessera_plugin_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string file(const std::string& name) const {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    return path.string();
  }
  fs::path root_;
};

TEST_F(PluginSearch, TheFlagComesFirst) {
  const std::string wanted = file("given/other_name.so");
  file("bin/xla_cpu_pjrt.so");
  const PluginPlaces places{.flag = wanted, .program_directory = (root_ / "bin").string()};
  EXPECT_EQ(find_plugin(Platform::kCpu, places), wanted);
  const std::string inside = file("directory/libtpu.so");
  EXPECT_EQ(find_plugin(Platform::kTpu, PluginPlaces{.flag = (root_ / "directory").string()}), inside);
}

TEST_F(PluginSearch, AFlagThatNamesNothingIsAnError) {
  file("bin/xla_cpu_pjrt.so");
  const PluginPlaces places{.flag = (root_ / "no.so").string(), .program_directory = (root_ / "bin").string()};
  EXPECT_THAT(
      message_of<Error>([&] { find_plugin(Platform::kCpu, places); }),
      AllOf(HasSubstr("there is no plugin at"), HasSubstr("no.so"), HasSubstr("--plugin"), HasSubstr("xla_cpu_pjrt.so")));
}

TEST_F(PluginSearch, NvidiasToolkitLiesBesideThePlugin) {
  const std::string plugin = file("site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  EXPECT_EQ(cuda_toolkit(plugin), "");
  file("site-packages/nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc");
  EXPECT_EQ(cuda_toolkit(plugin), root_ / "site-packages/nvidia/cuda_nvcc");
  file("site-packages/nvidia/cu13/nvvm/libdevice/libdevice.10.bc");
  EXPECT_EQ(cuda_toolkit(plugin), root_ / "site-packages/nvidia/cu13");
}

TEST_F(PluginSearch, TheEnvironmentsPathTakesFilesAndDirectories) {
  const std::string beside = file("bin/libtpu.so");
  const std::string tpu = file("a/libtpu.so");
  const std::string cpu = file("b/xla_cpu_pjrt.so");
  const PluginPlaces places{.environment_path = tpu + ":" + (root_ / "nothing").string() + "::" + (root_ / "b").string(),
                            .program_directory = (root_ / "bin").string()};
  EXPECT_EQ(find_plugin(Platform::kTpu, places), tpu);
  EXPECT_EQ(find_plugin(Platform::kCpu, places), cpu) << "libtpu.so is another platform's";
}

TEST_F(PluginSearch, PythonEnvironmentsComeLast) {
  const std::string old = file("venv/lib/python3.9/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  const std::string twelve = file("venv/lib/python3.11/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  PluginPlaces places{.program_directory = (root_ / "bin").string(), .environments = {"", (root_ / "venv").string()}};
  EXPECT_EQ(find_plugin(Platform::kCuda, places), twelve) << "the newest Python first";
  const std::string thirteen = file("venv/lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  EXPECT_EQ(find_plugin(Platform::kCuda, places), thirteen) << "CUDA 13 before 12";
  const std::string beside = file("bin/xla_cuda_plugin.so");
  EXPECT_EQ(find_plugin(Platform::kCuda, places), beside);
}

TEST_F(PluginSearch, PlacesAreTheEnvironmentsOfTheUserAndTheSystem) {
  const std::pair<const char*, std::string> variables[] = {{"VIRTUAL_ENV", (root_ / "venv").string()},
                                                           {"CONDA_PREFIX", (root_ / "conda").string()},
                                                           {"HOME", (root_ / "home").string()}};
  std::vector<std::optional<std::string>> before;
  for (const auto& [name, value] : variables) {
    const char* old = std::getenv(name);
    before.push_back(old == nullptr ? std::nullopt : std::optional<std::string>(old));
    ::setenv(name, value.c_str(), 1);
  }
  const PluginPlaces places = plugin_places();
  for (size_t i = 0; i < before.size(); ++i)
    before[i] ? ::setenv(variables[i].first, before[i]->c_str(), 1) : ::unsetenv(variables[i].first);
  const auto& environments = places.environments;
  ASSERT_GE(environments.size(), 5u);
  EXPECT_EQ(environments[0], root_ / "venv");
  EXPECT_EQ(environments[1], root_ / "conda");
  const std::vector<std::string> last(environments.end() - 3, environments.end());
  EXPECT_THAT(last, ::testing::ElementsAre((root_ / "home/.local").string(), "/usr/local", "/usr"));
  EXPECT_THAT(places.libraries, ::testing::Contains("/lib"));
  const std::string conda = file("conda/lib/python3.12/site-packages/libtpu/libtpu.so");
  EXPECT_EQ(find_plugin(Platform::kTpu, PluginPlaces{.program_directory = "/nowhere", .environments = environments}), conda);
}

TEST_F(PluginSearch, TheProgramOfACheckoutFindsWhatWasFetchedForPlans) {
  const std::string tpu = file(".deps/plan/lib/python3.11/site-packages/libtpu/libtpu.so");
  file(".deps/plan/lib/python3.11/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  PluginPlaces places{.program_directory = (root_ / "build/release/bin").string()};
  EXPECT_EQ(find_plugin(Platform::kTpu, places), tpu);
  EXPECT_THROW(find_plugin(Platform::kCuda, places), Error) << "CUDA is not beside it";
  places.libraries = {(root_ / "lib").string()};
  const std::string image = file("lib/libtpu.so");
  EXPECT_EQ(find_plugin(Platform::kTpu, places), image) << "a machine's own comes first";
  EXPECT_THROW(find_plugin(Platform::kTpu, PluginPlaces{.program_directory = (root_ / "build/release/tests").string()}), Error);
}

TEST_F(PluginSearch, NoPluginListsEveryPlace) {
  file("venv/lib/python3.11/site-packages/readme");
  const PluginPlaces places{.program_directory = "/nowhere/bin", .environments = {(root_ / "venv").string(), "/nowhere/venv"}};
  try {
    find_plugin(Platform::kTpu, places);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kDevice);
    EXPECT_THAT(error.what(),
                AllOf(StartsWith("no PJRT plugin for platform tpu; looked at"), HasSubstr("\n  /nowhere/bin/libtpu.so"),
                      HasSubstr("venv/lib/python3.11/site-packages/libtpu/libtpu.so"),
                      HasSubstr("\n  /nowhere/venv/lib/python3*/site-packages"), HasSubstr("TESSERA_PLUGIN_PATH (not set)"),
                      HasSubstr("help: tessera plugin install tpu, or pip install libtpu,")));
  }
}

TEST(Platform, NamesAreReadAndWritten) {
  for (const Platform platform : {Platform::kCpu, Platform::kCuda, Platform::kTpu}) {
    EXPECT_EQ(parse_platform(platform_name(platform)), platform);
  }
  EXPECT_EQ(parse_platform("gpu"), Platform::kCuda);
  EXPECT_THAT(message_of<Error>([] { parse_platform("cuba"); }),
              AllOf(HasSubstr("unknown platform `cuba`"), HasSubstr("cuda")));
}

TEST(Plugin, TellsItsVersions) {
  const std::shared_ptr<Plugin> plugin = cpu_plugin();
  EXPECT_EQ(plugin->version_line(), "xla_cpu_pjrt.so, PJRT C API 0.81, StableHLO 1.13.3 (minimum 0.9.0)");
  EXPECT_EQ(plugin->attributes().at("stablehlo_current_version"), "1.13.3");
  EXPECT_THAT(plugin->identity(), AllOf(StartsWith("xla_cpu_pjrt.so"), HasSubstr("size=259"), HasSubstr("xla_version=")));
  EXPECT_EQ(Plugin::load(testing::cpu_plugin_path()), plugin) << "loaded once";
}

TEST(Plugin, AFileThatIsNoLibrary) {
  const fs::path path = fs::path(::testing::TempDir()) / "tessera_not_a_library.so";
  std::ofstream(path) << "hello";
  EXPECT_THAT(message_of<Error>([&] { Plugin::load(path.string()); }),
              AllOf(HasSubstr("can't load the plugin: "), HasSubstr("tessera_not_a_library.so"), HasSubstr("help: ")));
  fs::remove(path);
  EXPECT_THAT(message_of<Error>([&] { Plugin::load("/nowhere/libtpu.so"); }), HasSubstr("/nowhere/libtpu.so"));
}

TEST(Plugin, ALibraryThatIsNoPlugin) {
  EXPECT_THAT(message_of<Error>([] { Plugin::load("libm.so.6"); }),
              HasSubstr("not a PJRT plugin: it has no function GetPjrtApi"));
}

TEST(Plugin, AnotherMajorVersion) {
  EXPECT_THAT(message_of<Error>([] { Plugin::load(testing::fake_plugin_path(1)); }),
              AllOf(HasSubstr("the plugin speaks PJRT C API 99.7, this program 0.81"), HasSubstr("fake_plugin_1")));
}

// The system's loader would map it whatever its length, and die by SIGBUS.
TEST_F(PluginSearch, AFileThatIsCutShortIsRefused) {
  const std::string path = (root_ / "cut.so").string();
  const auto size = static_cast<int64_t>(fs::file_size(testing::fake_plugin_path(4)));
  for (const int64_t left : {int64_t{1}, int64_t{3}, int64_t{4}, int64_t{20}, int64_t{63}, int64_t{64}, int64_t{100},
                             int64_t{4096}, size / 2, size - 4096, size - 1}) {
    fs::copy_file(testing::fake_plugin_path(4), path, fs::copy_options::overwrite_existing);
    fs::resize_file(path, static_cast<uintmax_t>(left));
    const std::string said = message_of<Error>([&] { Plugin::load(path); });
    EXPECT_THAT(said, HasSubstr(path)) << left;
    if (left < 4) {
      EXPECT_THAT(said, HasSubstr("can't load the plugin"));
    } else {
      EXPECT_THAT(said, AllOf(HasSubstr(fmt::format("cut short: it has {} bytes", left)), HasSubstr("install it again")));
    }
  }
}

TEST(Plugin, AFunctionBeyondTheTableOrEmpty) {
  for (const std::string& path : {testing::fake_plugin_path(2), testing::fake_plugin_path(3)}) {
    const std::shared_ptr<Plugin> plugin = Plugin::load(path);
    EXPECT_THAT(plugin->version_line(), HasSubstr("PJRT C API 0.7, StableHLO 1.2.3"));
    EXPECT_THAT(message_of<Error>([&] { Client::create(plugin); }),
                AllOf(StartsWith("the plugin has no PJRT_Client_Create; this program was built for PJRT C API 0.81"),
                      HasSubstr("PJRT C API 0.7")));
  }
}

PjrtError error_of_loading(int fake) {
  try {
    Plugin::load(testing::fake_plugin_path(fake));
  } catch (const PjrtError& error) {
    return error;
  }
  throw InternalError("it loads");
}

TEST(Plugin, AnErrorIsTakenApartAndDestroyed) {
  const PjrtError error = error_of_loading(4);
  EXPECT_EQ(error.message(), "PJRT_Plugin_Initialize: RESOURCE_EXHAUSTED: no room for the fake");
  EXPECT_THAT(error.where(), HasSubstr("PJRT C API 0.7"));
  EXPECT_THAT(error.help(), HasSubstr("smaller batch"));
  EXPECT_EQ(error.call(), "PJRT_Plugin_Initialize");
  EXPECT_EQ(error.code(), Exit::kDevice);
  EXPECT_TRUE(is_out_of_memory(error));
  EXPECT_FALSE(is_out_of_memory(device_error("something else")));
  EXPECT_FALSE(is_of_connection(error));
  void* library = dlopen(testing::fake_plugin_path(4).c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << "plugins stay loaded";
  const auto live_errors = reinterpret_cast<int (*)()>(dlsym(library, "fake_live_errors"));
  ASSERT_NE(live_errors, nullptr);
  EXPECT_EQ(live_errors(), 0);
}

TEST(Plugin, AnExceptionOfAPluginIsAnErrorOfTheDevice) {
  const PjrtError error = error_of_loading(8);
  EXPECT_EQ(error.message(), "PJRT_Plugin_Initialize: INTERNAL: the plugin threw: no such key");
  EXPECT_THAT(error.where(), HasSubstr("PJRT C API 0.7"));
  EXPECT_EQ(error.code(), Exit::kDevice);
}

// Whoever catches these says what to do, or that the mistake is this program's.
TEST(Plugin, WhatTheSystemRefusesAPluginIsNoErrorOfTheDevice) {
  const std::shared_ptr<Plugin> plugin = Plugin::load(testing::fake_plugin_path(2));
  const auto comes_out = [&](const auto& exception) {
    try {
      throw exception;
    } catch (...) {
      throw_plugin_exception(*plugin, "PJRT_Client_Compile");
    }
  };
  EXPECT_THROW(comes_out(std::bad_alloc()), std::bad_alloc);
  EXPECT_THROW(comes_out(std::system_error(EAGAIN, std::system_category())), std::system_error);
  EXPECT_THROW(comes_out(InternalError("a failed check")), InternalError);
  EXPECT_THROW(comes_out(std::length_error("too long")), PjrtError);
}

TEST(Plugin, ErrorsOfConnectionsAreThoseOfPeers) {
  const auto error = [](int status, const char* what) { return PjrtError("PJRT_Event_Await", status, what, {}, {}); };
  for (const int status : {4, 10, 14}) EXPECT_TRUE(is_of_connection(error(status, "said by another process"))) << status;
  constexpr int kInternal = 13;
  EXPECT_TRUE(is_of_connection(error(kInternal, "NCCL operation failed: remote process exited or there was a network error")));
  EXPECT_FALSE(is_of_connection(error(kInternal, "NCCL operation failed: unhandled cuda error")));
  EXPECT_FALSE(is_of_connection(device_error("remote process exited or there was a network error")));
}

TEST(Client, ListsItsDevices) {
  const auto client = Client::create(cpu_plugin(), {.cpu_device_count = 2});
  EXPECT_EQ(client->platform_name(), "cpu");
  ASSERT_EQ(client->devices().size(), 2u);
  EXPECT_EQ(client->devices()[1].kind, "cpu");
  EXPECT_NE(client->devices()[0].id, client->devices()[1].id);
  EXPECT_EQ(client->device_index(client->device_handle(1)), 1u);
  EXPECT_EQ(client->memory(0), std::nullopt) << "the CPU plugin does not tell";
  EXPECT_EQ(cpu_client()->devices().size(), 1u);
  EXPECT_THAT(message_of<InternalError>([&] { client->device_handle(2); }), HasSubstr("device 2 of 2"));
}

TEST(Client, RefusesWhatItCannotMake) {
  EXPECT_THAT(message_of<Error>([] { Client::create(cpu_plugin(), {.cpu_device_count = 0}); }),
              HasSubstr("0 devices asked for"));
}

}  // namespace
}  // namespace tessera::pjrt
