#include "base/system/refused.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <initializer_list>

namespace tessera {
namespace {

constexpr size_t kTrial = 64 << 20;             // what a library asks for at once: an arena, or a thread's stack
constexpr uint64_t kAddressMargin = 256 << 20;  // so close to the limit, some of several threads may have been refused theirs

// The limit, or nothing (RLIM_INFINITY) where there is none.
rlim_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

bool came_near_the_limit_of_addresses() {
  const rlim_t limit = limit_of(RLIMIT_AS);
  if (limit == RLIM_INFINITY) return false;
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  char text[4096];
  const ssize_t size = file < 0 ? 0 : read(file, text, sizeof text);
  if (file >= 0) close(file);
  constexpr std::string_view kPeak = "VmPeak:";  // then blanks, and KiB
  const std::string_view status(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const size_t at = status.find(kPeak);
  if (at == std::string_view::npos) return false;
  uint64_t kib = 0;
  for (const char c : status.substr(at + kPeak.size(), status.find('\n', at) - at - kPeak.size())) {
    if (c >= '0' && c <= '9') kib = kib * 10 + static_cast<uint64_t>(c - '0');
  }
  return (kib << 10) + kAddressMargin > limit;
}

int end_at_once(void*) { return 0; }

void put(int descriptor, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (write(descriptor, part.data(), part.size()) < 0) return;  // nobody is left to tell
  }
}

// " (`ulimit -v` is 488 MiB)", or "" where there is no such limit. In a buffer of its own, since nothing may be allocated.
struct LimitText {
  LimitText(__rlimit_resource resource, std::string_view flag, bool bytes) {
    const rlim_t limit = limit_of(resource);
    if (limit == RLIM_INFINITY) return;
    add(" (`ulimit ");
    add(flag);
    add("` is ");
    size +=
        static_cast<size_t>(std::to_chars(text + size, text + sizeof text, bytes ? limit >> 20 : limit).ptr - (text + size));
    add(bytes ? " MiB)" : ")");
  }
  void add(std::string_view part) { size += part.copy(text + size, sizeof text - size); }
  std::string_view view() const { return {text, size}; }

  char text[64] = {};
  size_t size = 0;
};

}  // namespace

bool memory_is_refused(size_t bytes) {
  void* const trial = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (trial == MAP_FAILED) return errno == ENOMEM || errno == EAGAIN;
  munmap(trial, bytes);
  return false;
}

bool memory_ran_out() { return memory_is_refused(kTrial) || came_near_the_limit_of_addresses(); }

bool thread_is_refused() {
  alignas(16) static char stack[16 << 10];
  static std::atomic<bool> taken;  // the stack
  if (taken.exchange(true)) return false;
  // This thread waits until the new process has ended, which sends no signal. It shares the memory, so that none is copied.
  const pid_t child = clone(end_at_once, stack + sizeof stack, CLONE_VM | CLONE_VFORK, nullptr);
  const bool refused = child < 0 && errno == EAGAIN;
  if (child > 0) waitpid(child, nullptr, __WCLONE);
  taken = false;
  return refused;
}

bool tell_refused(int descriptor, std::string_view last_words) {
  const bool no_thread = thread_is_refused();
  if (!no_thread && memory_ran_out()) {
    LimitText limit(RLIMIT_AS, "-v", true);
    if (limit.size == 0) limit = LimitText(RLIMIT_DATA, "-d", true);
    put(descriptor, {"error: the memory that ", limit.size == 0 ? "the machine has" : "this process may take", " is used up",
                     limit.view(), "\nhelp: make `data.batch`, `data.prefetch`, `data.threads` or the model smaller",
                     limit.size == 0 ? "" : ", or raise the limit", "\n"});
    return true;
  }
  // What XLA and LLVM say of a thread; it may be that one could be had again since.
  if (!no_thread && last_words.find("pthread_create() failed") == std::string_view::npos &&
      last_words.find("pthread_create failed") == std::string_view::npos) {
    return false;
  }
  put(descriptor, {"error: the system refuses another thread", LimitText(RLIMIT_NPROC, "-u", false).view(),
                   "\nhelp: set `data.threads` lower, or raise the limit: `ulimit -u` and the container's pids.max\n"});
  return true;
}

}  // namespace tessera
