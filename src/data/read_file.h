#pragma once
// A file of one image.

#include <optional>
#include <string>

#include "data/image.h"

namespace tessera::data {

// The whole file, in `buffer`. A reason when it cannot be read or is no regular file: opening a pipe must not wait.
[[nodiscard]] std::optional<std::string> read_whole_file(const std::string& path, Buffer& buffer);

// Asks the system to read the file ahead; may wait for its directories.
void fetch_file(const std::string& path);

}  // namespace tessera::data
