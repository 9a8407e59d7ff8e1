#pragma once
// The images that words of a command line name.

#include <string>
#include <vector>

namespace tessera::cli {

// Files as they are, folders as the images below them, sorted. A URL is a usage Error, a folder without images a data Error.
std::vector<std::string> image_paths(const std::vector<std::string>& words);

}  // namespace tessera::cli
