#include "cluster/launch/processes/signals.h"

#include <algorithm>

namespace tessera::launch {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGHUP, SIGINT};

sigset_t forwarded_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kForwarded) sigaddset(&set, number);
  return set;
}

sigset_t waited_signals() {
  sigset_t set = forwarded_signals();
  sigaddset(&set, SIGCHLD);
  return set;
}

BlockedSignals::Signal wait_for(const sigset_t& set, std::chrono::nanoseconds patience) {
  siginfo_t info{};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timespec time{seconds.count(), static_cast<long>((patience - seconds).count())};
  const int number = ::sigtimedwait(&set, &info, &time);
  return {std::max(number, 0), number > 0 && info.si_code == SI_KERNEL};
}

}  // namespace

Exit exit_after(int signal) { return signal == SIGINT ? Exit::kInterrupted : Exit::kPreempted; }

BlockedSignals::BlockedSignals() {
  const sigset_t set = waited_signals();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

BlockedSignals::~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

BlockedSignals::Signal BlockedSignals::wait(std::chrono::nanoseconds patience) { return wait_for(waited_signals(), patience); }

BlockedSignals::Signal BlockedSignals::wait_for_request(std::chrono::nanoseconds patience) {
  return wait_for(forwarded_signals(), patience);
}

bool BlockedSignals::requested() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return std::ranges::any_of(kForwarded, [&](int number) { return sigismember(&pending, number) == 1; });
}

}  // namespace tessera::launch
