#pragma once
// Which wheels of the package index a platform's plugin is made of.

#include <cstdint>
#include <string>
#include <vector>

#include "pjrt/plugin/plugin.h"

namespace tessera::plugins {

struct Wheel {
  std::string name, version;
  std::string sha256;               // 64 lower-case digits, of the file
  int64_t bytes = 0, unpacked = 0;  // of the file, and of what it holds; 0: not known
  // The same file.
  bool operator==(const Wheel& other) const { return name == other.name && version == other.version && sha256 == other.sha256; }
};

// wheels.def; empty for a platform whose plugin is not installed in this way.
std::vector<Wheel> pinned_wheels(pjrt::Platform platform);

}  // namespace tessera::plugins
