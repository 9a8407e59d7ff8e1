#pragma once
// Work that a command may leave unfinished.

#include <functional>
#include <optional>
#include <string>

namespace tessera::cli {

// Does `work` on a thread of its own, which is left behind when `stop` says so, or when a file that it waits for does not come for
// so many seconds. Gives why it was left; nothing: it is done. Throws what the work throws.
std::optional<std::string> do_if_files_come(std::function<void()> work, double patience_seconds,
                                            const std::function<bool()>& stop);

}  // namespace tessera::cli
