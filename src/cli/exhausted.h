#pragma once
// Messages for memory, threads or open files that the system refuses; this is no bug of the program.

#include <optional>
#include <string>

namespace tessera::cli {

// What was refused, the limit that there is, and what to do; nothing when the current exception is another one. For handlers:
// takes no more memory than it must.
std::optional<std::string> exhausted();

}  // namespace tessera::cli
