#pragma once
// Where this machine keeps its copy of what is on a server.

#include <string>

namespace tessera::remote {

// A directory of the cache for the copy of `url`, which need not exist: "runs/digits-1f0c36aa00000000" for the kind "runs". Throws a
// usage Error where the cache is turned off.
std::string copy_directory(const std::string& url, const char* kind);

}  // namespace tessera::remote
