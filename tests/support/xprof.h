#pragma once
// Profiles, read by xprof, which draws TensorBoard's profile tab. Only where ./dev has installed it (TESSERA_HAS_XPROF).

#ifdef TESSERA_HAS_XPROF

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/paths.h"

namespace tessera::testing {

// {"runs": [names], "profiles": {directory: {"planes": …, "names": [tools], "tools": {tool: text}}}} of all profiles under a
// directory (tests/support/read_profile.py).
inline nlohmann::json read_profiles(const std::string& directory) {
  const std::string command =
      fmt::format("'{}' '{}' '{}' 2>/dev/null", xprof_python_path(), source_path("tests/support/read_profile.py"), directory);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return nlohmann::json::parse(text);
}

}  // namespace tessera::testing

#endif
