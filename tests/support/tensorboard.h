#pragma once
// Event files, read by TensorBoard's own reader. Only where ./dev has installed it (TESSERA_TENSORBOARD_PYTHON).

#ifdef TESSERA_TENSORBOARD_PYTHON

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/clock_keys.h"

namespace tessera::testing {

// What tests/support/read_events.py says of a directory.
inline nlohmann::json read_events(const std::string& directory) {
  const std::string command =
      "'" TESSERA_TENSORBOARD_PYTHON "' '" TESSERA_SOURCE_DIR "/tests/support/read_events.py' '" + directory + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return nlohmann::json::parse(text);
}

// Its curves but for those that the clock decides.
inline nlohmann::json timeless_curves(const std::string& directory) {
  nlohmann::json curves = read_events(directory)["scalars"];
  erase_clock_keys(curves);
  return curves;
}

}  // namespace tessera::testing

#endif
