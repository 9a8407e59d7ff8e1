#include "pjrt/plugin/accelerators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::pjrt {
namespace {

constexpr std::string_view kGoogle = "0x1ae0";
constexpr auto kTpuDevices = std::to_array<std::string_view>({
    "0x0027",            // v2, v3
    "0x0056",            // without a public name
    "0x005e",            // v4
    "0x0062", "0x0063",  // v5p, v5e
    "0x006f",            // v6e
    "0x0076",            // 7x
    "0x0083", "0x007c",  // 8i, 8t
});

std::string word_in(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

// Whether the platform has a plugin; else `missing` says so.
bool has_plugin(Platform platform, const std::string& what, const PluginPlaces& places, std::string& missing) {
  try {
    find_plugin(platform, places);
    return true;
  } catch (const Error& error) {
    if (missing.empty()) missing = fmt::format("this machine has {}, and no plugin for it: {}", what, error.help());
    return false;
  }
}

std::string counted(int count, const char* what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

}  // namespace

int tpu_chips(const std::string& bus) {
  std::error_code error;
  int chips = 0;
  for (std::filesystem::directory_iterator entry(bus, error), end; !error && entry != end; entry.increment(error)) {
    if (word_in(entry->path() / "vendor") != kGoogle) continue;
    if (std::ranges::find(kTpuDevices, word_in(entry->path() / "device")) != kTpuDevices.end()) ++chips;
  }
  return chips;
}

int nvidia_gpus(const std::string& devices) {
  constexpr std::string_view kName = "nvidia";
  std::error_code error;
  int gpus = 0;
  for (std::filesystem::directory_iterator entry(devices, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool number = name.size() > kName.size() && name.starts_with(kName) &&
                        name.find_first_not_of("0123456789", kName.size()) == std::string::npos;
    if (number) ++gpus;
  }
  return gpus;
}

PlatformChoice choose_platform(int chips, int gpus, const PluginPlaces& places) {
  PlatformChoice choice;
  for (const auto& [platform, count, name] :
       {std::tuple(Platform::kTpu, chips, "TPU chip"), std::tuple(Platform::kCuda, gpus, "GPU")}) {
    if (count == 0 || !has_plugin(platform, counted(count, name), places, choice.missing)) continue;
    return {platform, "this machine has " + counted(count, name), ""};
  }
  if (choice.missing.empty()) choice.why = "this machine has no TPU or GPU";
  return choice;
}

std::vector<std::string> visible_accelerators(const char* visible, int count) {
  std::vector<std::string> names;
  if (!visible) {
    for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
    return names;
  }
  for (const std::string& one : split(visible, ',')) {
    const std::string_view name = trim(one);
    if (name.empty() || name.starts_with('-')) break;
    names.emplace_back(name);
  }
  return names;
}

GpuRange gpus_of_process(int64_t gpus, int64_t process, int64_t processes) {
  if (gpus == 0 || gpus % processes != 0) {
    throw usage_error(
        fmt::format("{} can't be divided over {} processes of this machine", counted(static_cast<int>(gpus), "GPU"), processes),
        "CUDA_VISIBLE_DEVICES", "one process drives all GPUs of a machine; --platform cpu trains on its processors");
  }
  const int64_t each = gpus / processes;
  return {process * each, (process + 1) * each};
}

}  // namespace tessera::pjrt
