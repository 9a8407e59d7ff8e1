#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace tessera {

// Told of every finished line that goes to the terminal (base/log.h), without escape sequences and maybe of several lines, on
// the thread that gives it; not of the status line. Null for nobody. It may give messages of its own, and it may still be
// running on another thread when this returns.
//
// `finish`: of a listener that keeps lines for a thread of its own. Waits until they are written, at most `patience`.
using FinishLines = std::function<void(std::chrono::milliseconds patience)>;
void set_line_listener(std::function<void(const std::string& text)> listener, FinishLines finish = nullptr);

// Calls `finish`, for a process that ends without its owner.
void finish_lines(std::chrono::milliseconds patience);

}  // namespace tessera
