#include "train/process/end_process.h"

#include <unistd.h>

#include <chrono>

#include "base/line_listener.h"

namespace tessera::train {

void end_process(Exit code) {
  finish_lines(std::chrono::seconds(2));
  ::_exit(static_cast<int>(code));
}

}  // namespace tessera::train
