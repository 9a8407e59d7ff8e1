#include "base/system/periodic.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "base/system/background_thread.h"
#include "base/system/spans.h"

namespace tessera {

Periodic::Periodic(std::string name, std::chrono::milliseconds interval, std::function<void()> look)
    : interval_(interval), look_(std::move(look)) {
  // A thread begins with the mask of the one that makes it: no signal comes to it before it could say so itself.
  const sigset_t others = signals_of_other_threads();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &others, &before);
  try {
    thread_ = std::thread([this, name = std::move(name)] { run(name); });
  } catch (const std::system_error&) {
    // Without it the program does what it is for.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Periodic::~Periodic() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_now_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Periodic::run(const std::string& name) {
  name_thread(name);
  std::unique_lock lock(mutex_);
  while (!ending_now_.wait_for(lock, interval_, [this] { return ending_; })) {
    lock.unlock();
    look_();
    lock.lock();
  }
}

}  // namespace tessera
