#include "train/process/stop_signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/log.h"

namespace tessera::train {
namespace {

std::atomic<int> received{0};
std::atomic<bool> held{false};
std::atomic<bool> installed{false};
std::atomic<bool> needs_agreement{false};
std::atomic<int> agreed{0};  // an exit code
std::atomic<bool> late_signal{false};
std::atomic<int64_t> first_at{0};  // ms of a clock that only goes forwards; 0: none came
std::atomic<bool> came_again{false};
constexpr int64_t kRepeatMs = 1000;
struct Handled {
  int number;
  const char* name;
};
constexpr int kAsked = -1;  // no signal's number
// All but Ctrl-C mean that the run is to be started again: SIGHUP says that the terminal is gone, SIGXCPU that the processor
// time which the system grants is used up.
constexpr std::array kHandled = {Handled{SIGTERM, "SIGTERM"}, Handled{SIGINT, "Ctrl-C"}, Handled{SIGHUP, "SIGHUP"},
                                 Handled{SIGXCPU, "SIGXCPU"}};
std::array<struct sigaction, kHandled.size()> previous;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

constexpr std::string_view kNothingLost = "\nstopped before training began; the same command starts again\n";

Exit exit_of(int number) { return number == SIGINT || number == kAsked ? Exit::kInterrupted : Exit::kPreempted; }

// Async-signal-safe, as what it calls.
void note_time() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  int64_t first = 0;
  if (!first_at.compare_exchange_strong(first, ms) && ms - first >= kRepeatMs) came_again.store(true);
}

// Async-signal-safe.
void on_signal(int number, siginfo_t* info, void*) {
  if (!held.load()) {
    // Whether or not somebody reads it.
    [[maybe_unused]] const ssize_t written = write(log_descriptor(), kNothingLost.data(), kNothingLost.size());
    _exit(static_cast<int>(exit_of(number)));
  }
  if (number == SIGINT && received.load() == SIGINT) _exit(static_cast<int>(Exit::kInterrupted));
  // Beyond a limit of processor time the system repeats its own each second.
  if (number != SIGXCPU || info->si_code != SI_KERNEL) note_time();
  received.store(number);
}

// What a signal asks for is done; the next one of its kind ends the process, should the end take long.
void on_late_signal(int number) {
  late_signal.store(true);
  signal(number, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  TESSERA_CHECK(!installed.exchange(true), "two StopSignals at once");
  received.store(0);
  held.store(false);
  needs_agreement.store(false);
  agreed.store(0);
  late_signal.store(false);
  first_at.store(0);
  came_again.store(false);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (size_t i = 0; i < kHandled.size(); ++i) {
    sigaction(kHandled[i].number, nullptr, &previous[i]);
    const bool nohup = kHandled[i].number == SIGHUP && previous[i].sa_handler == SIG_IGN;
    if (!nohup) sigaction(kHandled[i].number, &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  struct sigaction late {};
  late.sa_handler = on_late_signal;
  late.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kHandled.size(); ++i) {
    const bool theirs = !held.load() || previous[i].sa_handler != SIG_DFL;
    sigaction(kHandled[i].number, theirs ? &previous[i] : &late, nullptr);
  }
  installed.store(false);
}

bool StopSignal::came_late() { return late_signal.load(); }

void StopSignal::hold() { held.store(true); }

void StopSignal::ask() {
  int none = 0;
  received.compare_exchange_strong(none, kAsked);
}

void StopSignal::wait_for_agreement() { needs_agreement.store(true); }

void StopSignal::agree(Exit code) { agreed.store(static_cast<int>(code)); }

Exit StopSignal::wanted() const {
  const int number = received.load();
  return number == 0 ? Exit::kDone : exit_of(number);
}

bool StopSignal::requested() const { return needs_agreement.load() ? agreed.load() != 0 : received.load() != 0; }

bool StopSignal::repeated() const { return came_again.load(); }

Exit StopSignal::exit_code() const { return needs_agreement.load() ? static_cast<Exit>(agreed.load()) : wanted(); }

const char* StopSignal::name() const {
  if (!requested()) return "";
  if (received.load() == kAsked) return "a request";
  for (const Handled& handled : kHandled) {
    if (handled.number == received.load()) return handled.name;
  }
  return "another process";
}

}  // namespace tessera::train
