#pragma once
// Event files, read by TensorBoard's own reader. Only where ./dev has installed it (TESSERA_HAS_TENSORBOARD).

#ifdef TESSERA_HAS_TENSORBOARD

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/clock_keys.h"
#include "support/paths.h"

namespace tessera::testing {

// What a script of tests/support says of a directory.
inline nlohmann::json ask_tensorboard(const std::string& script, const std::string& directory) {
  const std::string command =
      fmt::format("'{}' '{}' '{}'", tensorboard_python_path(), source_path("tests/support/" + script), directory);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return nlohmann::json::parse(text);
}

// Everything in a directory of event files.
inline nlohmann::json read_events(const std::string& directory) { return ask_tensorboard("read_events.py", directory); }
// How the HParams tab compares all runs under a directory.
inline nlohmann::json read_hparams(const std::string& directory) { return ask_tensorboard("read_hparams.py", directory); }

// Its curves but for those that the clock decides.
inline nlohmann::json timeless_curves(const std::string& directory) {
  nlohmann::json curves = read_events(directory)["scalars"];
  erase_clock_keys(curves);
  return curves;
}

}  // namespace tessera::testing

#endif
