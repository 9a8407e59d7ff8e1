#pragma once
// The end of a process from a thread of its own, while the training loop hangs or can't go on.

#include "base/error.h"

namespace tessera::train {

// Once the log has what was said last, or after two seconds: its disk may be what hangs.
[[noreturn]] void end_process(Exit code);

}  // namespace tessera::train
