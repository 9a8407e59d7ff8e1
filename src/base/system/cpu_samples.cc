#include "base/system/cpu_samples.h"

#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>

namespace tessera {
namespace {

constexpr int64_t kPeriod = 1'000'000;            // nanoseconds; the system rounds it up to its tick
constexpr size_t kMaxSamples = size_t{1} << 20U;  // samples: a minute of sixteen threads

// What the signal handler sees and writes. It may run on any thread, also late, so no memory that it uses is freed while `inside` is
// not 0. The time of a sample is at first that on its thread's clock.
struct Shared {
  std::atomic<bool> on{false};
  std::atomic<int> inside{0};
  std::atomic<size_t> next{0};
  CpuSample* samples = nullptr;
};
constinit Shared shared;

uintptr_t address_of(const void* context) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(machine->pc);
#else
  (void)machine;
  return 0;
#endif
}

// Nanoseconds; -1 where there is no such thread any more.
int64_t read_clock(clockid_t clock) {
  timespec now{};
  return clock_gettime(clock, &now) == 0 ? int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec : -1;
}

void on_tick(int, siginfo_t*, void* context) {
  const int error = errno;
  ++shared.inside;
  if (shared.on) {
    const size_t at = shared.next++;
    if (at < kMaxSamples)
      shared.samples[at] = {address_of(context), current_work, read_clock(CLOCK_THREAD_CPUTIME_ID), span_clock(), gettid()};
  }
  --shared.inside;
  errno = error;
}

// The clock of a thread's processor time, as the system numbers them (clock_gettime(2), "Dynamic clocks").
clockid_t clock_of(pid_t thread) {
  constexpr unsigned kOneThread = 4, kScheduled = 2;
  return static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3U) | kOneThread | kScheduled);
}

std::vector<pid_t> threads_of_program() {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = entry.path().filename();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) out.push_back(thread);
  }
  return out;
}

// A timer that interrupts a thread after every period that it computed.
class Timer {
 public:
  static std::unique_ptr<Timer> start(pid_t thread) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event._sigev_un._tid = thread;
    auto out = std::make_unique<Timer>();
    out->thread_ = thread;
    out->sampled_ = read_clock(clock_of(thread));
    if (timer_create(clock_of(thread), &event, &out->timer_) != 0) return nullptr;
    out->made_ = true;
    const timespec period{0, kPeriod};
    const itimerspec times{period, period};
    return timer_settime(out->timer_, 0, &times, nullptr) == 0 ? std::move(out) : nullptr;
  }
  Timer() = default;
  ~Timer() {
    if (made_) timer_delete(timer_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  pid_t thread() const { return thread_; }
  // Sets the time that the thread's next sample stands for: what it computed since the one before.
  void add(CpuSample& sample) {
    const int64_t now = sample.time;
    sample.time = now - sampled_;
    sampled_ = now;
    last_ = &sample;
  }
  // The system takes a sample at its tick, and a thread that shares its processor may miss many: what came after the last sample
  // counts for it. Not of a thread that has ended.
  void add_the_rest() const {
    const int64_t now = read_clock(clock_of(thread_));
    if (last_ != nullptr && now > sampled_) last_->time += now - sampled_;
  }

 private:
  pid_t thread_ = 0;
  int64_t sampled_ = 0;  // on the thread's clock
  CpuSample* last_ = nullptr;
  timer_t timer_{};
  bool made_ = false;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
struct State {
  std::mutex mutex;
  std::vector<std::unique_ptr<Timer>> timers;
  std::unique_ptr<CpuSample[], Free> room;  // not initialised: it may be 32 MiB, most of which is never used
};
// Never freed, as the handler is never taken away: a signal may come late.
State& state() {
  static auto& the = *new State;
  return the;
}

bool set_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  return sigaction(SIGPROF, &action, nullptr) == 0;
}

}  // namespace

bool start_cpu_samples() {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  if (own.room) return false;
  static_assert(std::is_trivially_copyable_v<CpuSample>);
  own.room.reset(static_cast<CpuSample*>(std::malloc(kMaxSamples * sizeof(CpuSample))));
  if (!own.room || !set_handler()) {
    own.room.reset();
    return false;
  }
  shared.samples = own.room.get();
  shared.next = 0;
  shared.on = true;
  for (const pid_t thread : threads_of_program()) {
    if (auto timer = Timer::start(thread)) own.timers.push_back(std::move(timer));
  }
  return true;
}

CpuSamples stop_cpu_samples() {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  CpuSamples out;
  if (!own.room) return out;
  shared.on = false;
  while (shared.inside != 0) std::this_thread::yield();
  const size_t taken = shared.next, kept = std::min(taken, kMaxSamples);
  out.samples.assign(own.room.get(), own.room.get() + kept);
  out.lost = static_cast<int64_t>(taken - kept);
  own.room.reset();
  std::map<int64_t, Timer*> timers;
  for (const auto& timer : own.timers) timers[timer->thread()] = timer.get();
  std::erase_if(out.samples, [&](const CpuSample& sample) { return !timers.contains(sample.thread); });
  for (CpuSample& sample : out.samples) timers[sample.thread]->add(sample);
  if (out.lost == 0) {
    for (const auto& timer : own.timers) timer->add_the_rest();
  }
  own.timers.clear();
  return out;
}

}  // namespace tessera
