// A control socket that is told to end while its thread is about to look for what it has to do.

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

// In the place of the C library's: whoever is told of something meanwhile has written before it is read.
extern "C" int eventfd_read(int descriptor, eventfd_t* value) {
  if (late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return ::read(descriptor, value, sizeof *value) == sizeof *value ? 0 : -1;
}

namespace tessera::train {
namespace {

TEST(ControlSocketEnd, WhatIsReadMeanwhileIsNotForgotten) {
  const testing::TempDir dir;
  StopSignal stop;
  RunControl control(stop);
  late = true;
  {
    const ControlSocket socket(dir.path(), control);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // its thread is in the call above
  }
  late = false;
}

}  // namespace
}  // namespace tessera::train
