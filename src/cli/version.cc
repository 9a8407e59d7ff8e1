#include "cli/version.h"

#include <fmt/format.h>
#include <pjrt_c_api.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "pjrt/plugin/plugin.h"

namespace tessera::cli {

std::string version_line() {
  const std::string git = TESSERA_GIT;
  return git.empty() ? fmt::format("tessera {}", TESSERA_VERSION) : fmt::format("tessera {} ({})", TESSERA_VERSION, git);
}

std::string version_json(const std::string& plugin) {
  nlohmann::ordered_json json;
  json["version"] = TESSERA_VERSION;
  json["git"] = TESSERA_GIT;
  json["compiler"] = fmt::format("{} {}", TESSERA_COMPILER, __VERSION__);
  json["pjrt_c_api"] = fmt::format("{}.{}", PJRT_API_MAJOR, PJRT_API_MINOR);
  json["plugins"] = nlohmann::ordered_json::array();
  for (const pjrt::Platform platform : {pjrt::Platform::kCpu, pjrt::Platform::kCuda, pjrt::Platform::kTpu}) {
    try {
      const std::string path = pjrt::find_plugin(platform, plugin);
      json["plugins"].push_back({{"platform", pjrt::platform_name(platform)}, {"path", path}});
    } catch (const Error&) {
      // Not there, which is what the list says.
    }
  }
  return json.dump();
}

}  // namespace tessera::cli
