#pragma once
// What this build is.

#include <string>

namespace tessera::cli {

// "tessera 0.1.0 (1b1bbef20c4d)"; without the parenthesis when it was built outside a git checkout.
std::string version_line();
// One JSON object: version, git, compiler, pjrt_c_api (of the header), plugins ({platform, path} of those found, none loaded).
std::string version_json(const std::string& plugin);

}  // namespace tessera::cli
