#include "train/process/end_process.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace tessera::train {

void end_process(Exit code) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::_exit(static_cast<int>(code));
}

}  // namespace tessera::train
