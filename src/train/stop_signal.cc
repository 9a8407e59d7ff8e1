#include "train/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace tessera::train {
namespace {

std::atomic<int> received{0};
std::atomic<bool> installed{false};
struct sigaction previous_term, previous_int;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void on_signal(int number) {
  if (number == SIGINT && received.load() == SIGINT) _exit(static_cast<int>(Exit::kInterrupted));
  received.store(number);
}

}  // namespace

StopSignal::StopSignal() {
  TESSERA_CHECK(!installed.exchange(true), "two StopSignals at once");
  received.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &previous_term);
  sigaction(SIGINT, &action, &previous_int);
}

StopSignal::~StopSignal() {
  sigaction(SIGTERM, &previous_term, nullptr);
  sigaction(SIGINT, &previous_int, nullptr);
  installed.store(false);
}

bool StopSignal::requested() const { return received.load() != 0; }

Exit StopSignal::exit_code() const {
  switch (received.load()) {
    case SIGTERM: return Exit::kPreempted;
    case SIGINT: return Exit::kInterrupted;
    default: return Exit::kDone;
  }
}

const char* StopSignal::name() const { return received.load() == SIGTERM ? "SIGTERM" : "Ctrl-C"; }

}  // namespace tessera::train
