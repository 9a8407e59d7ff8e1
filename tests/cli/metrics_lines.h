#pragma once
// metrics.jsonl of a run, as curves.

#include <cmath>
#include <map>
#include <string>

#include "cli/run_program.h"
#include "support/clock_keys.h"

namespace tessera::cli {

// By name, the value at each step.
using Curves = std::map<std::string, std::map<int64_t, double>>;

inline Curves curves_of(const fs::path& workdir) {
  Curves curves;
  std::istringstream text(read_file(workdir / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const Json json = Json::parse(line);
    for (const auto& [name, value] : json.items()) {
      if (name != "step" && value.is_number()) curves[name][json["step"]] = value;
    }
  }
  return curves;
}

// Without what the clock and the machine decide.
inline Curves timeless(Curves curves) {
  std::erase_if(curves, [](const auto& curve) { return testing::is_clock_key(curve.first); });
  return curves;
}

}  // namespace tessera::cli
