#pragma once

#include <functional>
#include <string>

namespace tessera {

// Told of every finished line that goes to the terminal (base/log.h), without escape sequences and maybe of several lines, on
// the thread that gives it; not of the status line. Null for nobody. It may give messages of its own, and it may still be
// running on another thread when this returns.
void set_line_listener(std::function<void(const std::string& text)> listener);

}  // namespace tessera
