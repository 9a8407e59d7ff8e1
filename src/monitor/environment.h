#pragma once
// What trackers' own programs take from the environment.

#include <cstdlib>
#include <string>

namespace tessera::monitor {

// Of a variable that is not set: `otherwise`; an empty one counts as not set.
inline std::string from_environment(const char* name, const std::string& otherwise = {}) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace tessera::monitor
