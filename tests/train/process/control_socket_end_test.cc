// A control socket that ends while its thread reads its eventfd. The thread once missed the stop and slept for ever.

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "store/temp_dir.h"
#include "train/control/control.h"
#include "train/control/control_socket.h"
#include "train/process/stop_signal.h"

namespace {
std::atomic<bool> late = false;
}

// Replaces the C library's: it waits first, so that the destructor writes to the eventfd before this reads it.
extern "C" int eventfd_read(int descriptor, eventfd_t* value) {
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return ::read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

namespace tessera::train {
namespace {

TEST(ControlSocketEnd, AStopThatComesBeforeTheReadIsSeen) {
  const testing::TempDir dir;
  StopSignal stop;
  RunControl control(stop);
  late = true;
  {
    const ControlSocket socket(dir.path(), control);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the thread waits in eventfd_read
  }
  late = false;
}

}  // namespace
}  // namespace tessera::train
