#pragma once
// The end of a process from a thread of its own, while the training loop hangs or can't go on.

#include "base/error.h"

namespace tessera::train {

// At once, but for the moment in which the log's thread writes what was said last.
[[noreturn]] void end_process(Exit code);

}  // namespace tessera::train
