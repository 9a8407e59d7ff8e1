#include "pjrt/plugin/stderr_filter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/log.h"

namespace tessera::pjrt {
namespace {

constexpr off_t kMaxBytes = 4 << 20;
constexpr size_t kKeptBytes = 64 << 10;
constexpr off_t kCrashBytes = 8 << 10;
constexpr int kCrashSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

std::atomic<int> g_captured{-1};

bool built_with_sanitizer() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

off_t file_size(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_size : 0;
}

// Our own mistakes are exceptions, so that only a library aborts. LLVM also faults where it clears away a program that it could
// not load for lack of memory (llvm::orc::ExecutionSession::IL_failSymbols).
constexpr std::string_view kAborted = "error: a library ended the program; its last words stand above\n";
constexpr std::string_view kFailedCheck =
    "help: where that is a failed check of the device's compiler, another batch, size of images or dtype may avoid it\n";
constexpr std::string_view kOutOfAddresses =
    "help: the memory that this process may take (`ulimit -v`) was used up: make `data.batch`, `data.prefetch`, "
    "`data.threads` or the model smaller, or raise the limit\n";
constexpr uint64_t kAddressMargin = 256 << 20;  // more than a library asks for at once: a thread's stack or arena

// Whether `ulimit -v` has ever left less than the margin: where a library trips over memory that was refused, other threads may have
// given theirs back. Async-signal-safe: system calls and arithmetic.
bool out_of_addresses() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
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
  return (kib << 10) + kAddressMargin > limit.rlim_cur;
}

void write_or_exit(int descriptor, std::string_view text) {
  if (write(descriptor, text.data(), text.size()) < 0) _exit(1);
}

// Async-signal-safe: only system calls.
void show_captured_and_die(int signal_number) {
  const int captured = g_captured;
  const int terminal = log_descriptor();
  off_t position = std::max<off_t>(0, file_size(captured) - kCrashBytes);
  char block[1024];
  for (ssize_t size; (size = pread(captured, block, sizeof block, position)) > 0; position += size) {
    if (write(terminal, block, static_cast<size_t>(size)) < 0) break;
  }
  const bool refused = out_of_addresses();
  if (signal_number == SIGABRT || refused) {
    write_or_exit(terminal, kAborted);
    write_or_exit(terminal, refused ? kOutOfAddresses : kFailedCheck);
  }
  raise(signal_number);  // SA_RESETHAND has put the default action back
}

void install_crash_handlers() {
  struct sigaction action {};
  action.sa_handler = show_captured_and_die;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal_number : kCrashSignals) {
    struct sigaction old {};
    if (sigaction(signal_number, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(signal_number, &action, nullptr);
  }
}

}  // namespace

void capture_stderr() {
  const char* keep = std::getenv("TESSERA_PLUGIN_STDERR");
  if (stderr_captured() || built_with_sanitizer() || (keep != nullptr && std::strcmp(keep, "1") == 0)) return;
  const int file = memfd_create("tessera-plugin-stderr", MFD_CLOEXEC);
  const int terminal = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  // Appending writes go to the end of the file even after trim_captured_stderr has cut it.
  if (file < 0 || terminal < 0 || fcntl(file, F_SETFL, O_APPEND) < 0 || dup2(file, STDERR_FILENO) < 0) {
    if (file >= 0) close(file);
    if (terminal >= 0) close(terminal);
    return;  // noise on the terminal is the lesser evil
  }
  set_log_descriptor(terminal);
  g_captured = file;
  install_crash_handlers();
}

bool stderr_captured() { return g_captured >= 0; }

std::string captured_stderr(size_t max_bytes) {
  const int file = g_captured;
  if (file < 0) return {};
  const off_t size = file_size(file);
  const off_t start = std::max<off_t>(0, size - static_cast<off_t>(max_bytes));
  std::string text(static_cast<size_t>(size - start), '\0');
  const ssize_t got = pread(file, text.data(), text.size(), start);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

void trim_captured_stderr() {
  const int file = g_captured;
  if (file < 0 || file_size(file) <= kMaxBytes) return;
  const std::string kept = captured_stderr(kKeptBytes);
  if (ftruncate(file, 0) == 0 && write(file, kept.data(), kept.size()) < 0) return;
}

}  // namespace tessera::pjrt
