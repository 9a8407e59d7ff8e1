#pragma once
// Which wheels of the package index a platform's plugin is made of.

#include <string>
#include <vector>

#include "pjrt/plugin.h"

namespace tessera::plugins {

struct Wheel {
  std::string name, version;
  std::string sha256;  // 64 lower-case digits, of the file
  bool operator==(const Wheel&) const = default;
};

// wheels.def; empty for a platform whose plugin is not installed in this way.
std::vector<Wheel> pinned_wheels(pjrt::Platform platform);

}  // namespace tessera::plugins
