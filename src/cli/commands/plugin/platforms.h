#pragma once
// Platforms whose plugins can be installed.

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "pjrt/install/wheels.h"

namespace tessera::cli {

inline constexpr std::array kInstallable = {pjrt::Platform::kTpu, pjrt::Platform::kCuda};

// Of a name; a usage Error that lists them for others.
inline pjrt::Platform installable_platform(const std::string& name) {
  std::vector<std::string> known;
  for (const pjrt::Platform platform : kInstallable) {
    if (pjrt::platform_name(platform) == name || (name == "gpu" && platform == pjrt::Platform::kCuda)) return platform;
    known.emplace_back(pjrt::platform_name(platform));
  }
  throw usage_error("there is no plugin to install for `" + name + "`", {}, suggest_name(name, known));
}

}  // namespace tessera::cli
