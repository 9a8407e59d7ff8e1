#pragma once
// Variables of the environment.

#include <cstdlib>
#include <string>

namespace tessera {

// Of a variable that is not set: `otherwise`; an empty one counts as not set.
inline std::string environment_variable(const char* name, const std::string& otherwise = {}) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace tessera
