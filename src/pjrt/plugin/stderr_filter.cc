#include "pjrt/plugin/stderr_filter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "base/system/refused.h"

namespace tessera::pjrt {
namespace {

constexpr off_t kMaxBytes = 4 << 20;
constexpr size_t kKeptBytes = 64 << 10;
constexpr off_t kCrashBytes = 8 << 10;
constexpr int kCrashSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

std::atomic<int> g_captured{-1};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kBuiltWithSanitizer = true;
#else
constexpr bool kBuiltWithSanitizer = false;
#endif

off_t file_size(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_size : 0;
}

// Our own mistakes are exceptions, so that only a library aborts.
constexpr std::string_view kAborted = "a library ended the program; its last words stand above\n";
constexpr std::string_view kAbortedHelp =
    "help: where that is a failed check of the device's compiler, another batch, size of images or dtype may avoid it\n";

std::atomic<pid_t> g_teller{0};

void show(int descriptor, std::string_view text) {
  if (write(descriptor, text.data(), text.size()) < 0) return;  // nobody is left to tell
}

// Async-signal-safe, as the functions below that tell how the process ended.
std::string_view read_last_words(std::span<char> buffer) {
  const int captured = g_captured;
  const off_t start = std::max<off_t>(0, file_size(captured) - static_cast<off_t>(buffer.size()));
  const ssize_t size = pread(captured, buffer.data(), buffer.size(), start);
  return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// Of absl's line for a fatal error, without where it is in the sources: "F1129 00:14:13.913786    1448 parse_flags_from_env.cc:234]
// Unknown flag in XLA_FLAGS: --xla_x". Empty: the last line is none.
std::string_view fatal_message(std::string_view last_words) {
  while (last_words.ends_with('\n')) last_words.remove_suffix(1);
  const std::string_view line = last_words.substr(last_words.rfind('\n') + 1);
  const size_t end = line.find("] ");
  const bool fatal = line.size() > 5 && line[0] == 'F' && line.find_first_not_of("0123456789", 1) == 5;
  return fatal && end != std::string_view::npos ? line.substr(end + 2) : std::string_view();
}

// Shows the fatal message of a library that ends the process by itself; false: there is none.
[[maybe_unused]] bool tell_fatal_end() {  // not in builds with a sanitizer
  if (!stderr_captured() || g_teller != 0) return false;
  char buffer[kCrashBytes];
  const std::string_view message = fatal_message(read_last_words(buffer));
  if (message.empty()) return false;
  const int terminal = log_descriptor();
  show(terminal, "error: a library ended the program: ");
  show(terminal, message);
  show(terminal, "\n");
  return true;
}

// Under a low limit a bug may have been taken for memory or threads that were refused.
void show_how_it_ended(int descriptor, int signal_number) {
  if (signal_number == SIGABRT) {
    show(descriptor, "note: ");
    return show(descriptor, kAborted);
  }
  char number[8];
  const char* const end = std::to_chars(number, number + sizeof number, signal_number).ptr;
  show(descriptor, "note: a library or this program failed (signal ");
  show(descriptor, {number, static_cast<size_t>(end - number)});
  show(descriptor, ") near that limit; if it does so far from it too, it is a bug\n");
}

void show_captured_and_die(int signal_number) {
  // One thread tells and ends the process. Others that fail wait for that; one that fails while it tells ends it at once.
  const pid_t self = gettid();
  pid_t first = 0;
  if (!g_teller.compare_exchange_strong(first, self)) {
    if (first != self) {
      for (;;) pause();
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  const int terminal = log_descriptor();
  char buffer[kCrashBytes];
  const std::string_view last_words = read_last_words(buffer);
  show(terminal, last_words);
  // Memory or threads that were refused are nobody's bug: LLVM, for one, faults where it clears away a program
  // that it could not load for lack of memory (llvm::orc::ExecutionSession::IL_failSymbols).
  if (tell_refused(terminal, last_words)) {
    show_how_it_ended(terminal, signal_number);
    _exit(static_cast<int>(Exit::kDevice));
  }
  if (signal_number == SIGABRT) {
    show(terminal, "error: ");
    show(terminal, kAborted);
    show(terminal, kAbortedHelp);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void install_crash_handlers() {
  // The stack of this thread, the first, grows as it is used: where that is refused the handler needs another.
  static char stack[64 << 10];
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = show_captured_and_die;
  action.sa_flags = SA_NODEFER | SA_ONSTACK;
  for (const int signal_number : kCrashSignals) {
    struct sigaction old {};
    if (sigaction(signal_number, nullptr, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(signal_number, &action, nullptr);
  }
}

}  // namespace

void capture_stderr() {
  const char* keep = std::getenv("TESSERA_PLUGIN_STDERR");
  if (stderr_captured() || kBuiltWithSanitizer || (keep != nullptr && std::strcmp(keep, "1") == 0)) return;
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

size_t captured_stderr_size() { return stderr_captured() ? static_cast<size_t>(file_size(g_captured)) : 0; }

std::string captured_stderr_since(size_t size, size_t max_bytes) {
  const size_t now = captured_stderr_size();
  return captured_stderr(size <= now ? std::min(max_bytes, now - size) : max_bytes);
}

void trim_captured_stderr() {
  const int file = g_captured;
  if (file < 0 || file_size(file) <= kMaxBytes) return;
  const std::string kept = captured_stderr(kKeptBytes);
  if (ftruncate(file, 0) == 0 && write(file, kept.data(), kept.size()) < 0) return;
}

}  // namespace tessera::pjrt

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// In the place of the C library's function, with which absl's LOG(QFATAL) ends the process after its message. XLA does so where it
// does not know a flag in XLA_FLAGS.
extern "C" void _exit(int code) {
  if (tessera::pjrt::tell_fatal_end()) code = static_cast<int>(tessera::Exit::kDevice);
  for (;;) ::syscall(SYS_exit_group, code);
}
#endif
