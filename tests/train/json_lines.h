#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "store/temp_dir.h"

namespace tessera::testing {

// The objects of a file with one a line, as metrics.jsonl.
inline std::vector<nlohmann::json> json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(slurp(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace tessera::testing
