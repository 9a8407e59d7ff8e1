#pragma once
// Which processes have the same directory, where all name it alike.

#include <cstdint>
#include <string>
#include <vector>

#include "train/process/processes.h"

namespace tessera::train {

// Of each process the first one that sees the same directory at `path`, by files that they leave there for each other: what else
// they see alike may have been copied from host to host. All come to it, once, and each has a directory there.
std::vector<int64_t> directory_of_each(Processes& processes, const std::string& path);

}  // namespace tessera::train
