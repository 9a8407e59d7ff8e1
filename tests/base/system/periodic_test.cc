#include "base/system/periodic.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <thread>

#include "base/system/background_thread.h"

namespace tessera {
namespace {

sigset_t blocked_here() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return blocked;
}

// A fault whose signal is blocked ends the process before a handler can say what happened.
void expect_own_faults_alone(const sigset_t& blocked) {
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
  EXPECT_TRUE(sigismember(&blocked, SIGINT));
  EXPECT_FALSE(sigismember(&blocked, SIGSEGV));
  EXPECT_FALSE(sigismember(&blocked, SIGBUS));
}

TEST(BackgroundThread, TakesTheSignalsOfItsOwnFaults) {
  std::promise<sigset_t> blocked;
  std::thread thread([&] {
    become_background_thread();
    blocked.set_value(blocked_here());
  });
  thread.join();
  expect_own_faults_alone(blocked.get_future().get());
}

TEST(Periodic, TakesTheSignalsOfItsOwnFaults) {
  std::promise<sigset_t> blocked;
  bool told = false;
  const Periodic periodic("looks", std::chrono::milliseconds(1), [&] {
    if (!told) blocked.set_value(blocked_here());
    told = true;
  });
  expect_own_faults_alone(blocked.get_future().get());
}

}  // namespace
}  // namespace tessera
