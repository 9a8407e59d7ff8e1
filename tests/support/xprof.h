#pragma once
// Profiles, read by xprof, which draws TensorBoard's profile tab. Only where ./dev has installed it (TESSERA_HAS_XPROF).

#ifdef TESSERA_HAS_XPROF

#include <nlohmann/json.hpp>
#include <string>

#include "support/paths.h"
#include "support/python_script.h"

namespace tessera::testing {

// {"runs": [names], "profiles": {directory: {"planes": …, "names": [tools], "tools": {tool: text}}}} of all profiles under a
// directory (tests/support/scripts/read_profile.py).
inline nlohmann::json read_profiles(const std::string& directory) {
  return ask_script(xprof_python_path(), "read_profile.py", {directory});
}

}  // namespace tessera::testing

#endif
