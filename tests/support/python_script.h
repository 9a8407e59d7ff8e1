#pragma once
// Scripts of tests/support/scripts, run with a Python that has the reader they ask.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text/shell.h"
#include "support/paths.h"

namespace tessera::testing {

// What a script says, as JSON.
inline nlohmann::json ask_script(const std::string& python, const std::string& script,
                                 const std::vector<std::string>& arguments) {
  std::string command = shell_quoted(python) + " " + shell_quoted(source_path("tests/support/scripts/" + script));
  for (const std::string& argument : arguments) command += " " + shell_quoted(argument);
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), size);
  if (::pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return nlohmann::json::parse(text);
}

}  // namespace tessera::testing
