#pragma once
// Memory, threads and open files are the machine's to give: where it has no more, that is no bug of the program.

#include <optional>
#include <string>

namespace tessera::cli {

// What was refused, the limit that there is, and what to do; nothing when the current exception is another one. For handlers:
// takes no more memory than it must.
std::optional<std::string> exhausted();

}  // namespace tessera::cli
