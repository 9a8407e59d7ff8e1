#pragma once
// The images that words of a command line name.

#include <string>
#include <vector>

namespace tessera::cli {

// Files as they are, `-` for an image from stdin, and of folders every file below them, sorted as bytes: as folder(path) has them,
// without names that begin with a dot and without what lies behind links to folders, whatever the names end in. A URL that cannot
// be read, `-` from a terminal and a second `-` are usage Errors, a folder without files is a data Error.
std::vector<std::string> image_paths(const std::vector<std::string>& words);

}  // namespace tessera::cli
