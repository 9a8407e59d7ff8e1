#include "base/system/file_calls.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/log.h"
#include "base/printable.h"

namespace tessera {
namespace {

constexpr double kAgain = 5;  // times as long until a call is named again

// What one thread is at. Never freed: who looks at them takes them one after the other without a lock on all.
struct Slot {
  std::atomic<bool> taken{false};
  Slot* next = nullptr;
  std::mutex mutex;  // guards the rest
  const char* what = nullptr;
  const std::string* path = nullptr;
  int64_t since = 0;  // ms of clock_ms()
  bool left_out = false;
};

std::atomic<Slot*> g_slots{nullptr};
thread_local constinit Slot* own = nullptr;

// A clock that is read without asking the processor's: a few milliseconds coarse.
int64_t clock_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

struct GivesBack {
  ~GivesBack() {
    if (own != nullptr) own->taken = false;
    own = nullptr;
  }
};

Slot* take_slot() {
  for (Slot* slot = g_slots.load(); slot != nullptr; slot = slot->next) {
    bool free = false;
    if (!slot->taken.compare_exchange_strong(free, true)) continue;
    const std::lock_guard lock(slot->mutex);
    slot->left_out = false;
    return slot;
  }
  auto* slot = new Slot;
  slot->taken = true;
  slot->next = g_slots.load();
  while (!g_slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

Slot& own_slot() {
  if (own == nullptr) {
    own = take_slot();
    thread_local const GivesBack at_the_end;
  }
  return *own;
}

}  // namespace

FileCall::FileCall(const char* what, const std::string& path) {
  Slot& slot = own_slot();
  const std::lock_guard lock(slot.mutex);
  what_before_ = slot.what;
  path_before_ = slot.path;
  since_before_ = slot.since;
  slot.what = what;
  slot.path = &path;
  slot.since = clock_ms();
}

FileCall::~FileCall() {
  const std::lock_guard lock(own->mutex);
  own->what = what_before_;
  own->path = path_before_;
  own->since = since_before_;
}

void leave_out_file_calls() {
  Slot& slot = own_slot();
  const std::lock_guard lock(slot.mutex);
  slot.left_out = true;
}

std::string text_of(const SlowFileCall& call) {
  return fmt::format("{} `{}` has taken {:.0f} s so far", call.what, one_line(call.path), call.seconds);
}

std::optional<SlowFileCall> slow_file_call(double seconds) {
  std::optional<SlowFileCall> slowest;
  for (Slot* slot = g_slots.load(); slot != nullptr; slot = slot->next) {
    const std::lock_guard lock(slot->mutex);
    if (slot->what == nullptr || slot->left_out) continue;
    const double taken = static_cast<double>(clock_ms() - slot->since) / 1e3;
    if (taken < std::max(seconds, slowest ? slowest->seconds : 0)) continue;
    slowest = {slot->what, *slot->path, taken, slot->since};
  }
  return slowest;
}

FileWatch::FileWatch(double patience_seconds)
    : patience_(patience_seconds),
      thread_("file watch", std::chrono::milliseconds(static_cast<int64_t>(patience_seconds * 100)), [this] { look(); }) {}

void FileWatch::look() {
  const std::optional<SlowFileCall> call = slow_file_call(patience_);
  if (!call || (call->id == told_ && call->seconds < again_)) return;
  told_ = call->id;
  again_ = kAgain * call->seconds;
  log_warning(text_of(*call) + "\nhelp: see whether the disk or the network that holds it answers");
}

}  // namespace tessera
