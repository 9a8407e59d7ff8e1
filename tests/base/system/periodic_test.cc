#include "base/system/periodic.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <future>
#include <string>
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
    become_background_thread("reader", "reading");
    blocked.set_value(blocked_here());
  });
  thread.join();
  expect_own_faults_alone(blocked.get_future().get());
}

// All of them were called "live page", and their time was the page's.
TEST(BackgroundThread, HasANameOfItsOwn) {
  std::string name, work, part;
  std::thread thread([&] {
    become_background_thread("copy of the run", "run in a bucket");
    std::array<char, 16> there{};
    pthread_getname_np(pthread_self(), there.data(), there.size());
    name = there.data();
    work = current_work.name;
    part = current_work.where;
  });
  thread.join();
  EXPECT_EQ(name, "copy of the run");
  EXPECT_EQ(work, "copy of the run");
  EXPECT_EQ(part, "run in a bucket");
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
