#include "cli/crash.h"

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/system/refused.h"
#include "cli/exhausted.h"
#include "cli/version.h"
#include "pjrt/plugin/stderr_filter.h"

namespace tessera::cli {
namespace {

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts)};
}

std::string exception_text() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
  return "terminate() was called without an exception";
}

std::string stack_text() {
  void* frames[64];
  const int count = backtrace(frames, 64);
  char** names = backtrace_symbols(frames, count);
  std::string text;
  for (int i = 0; i < count && names != nullptr; ++i) text += fmt::format("  {}\n", names[i]);
  std::free(names);
  return text;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string report(const std::string& reason) {
  const CrashContext& context = crash_context();
  std::string text = fmt::format("{}\n\ncommand: {}\nreason: {}\n\nstack (addresses for addr2line -e <program>):\n{}",
                                 version_line(), context.command, reason, stack_text());
  if (!context.recipe.empty()) text += fmt::format("\nrecipe {}:\n{}\n", context.recipe, file_text(context.recipe));
  const std::string noise = pjrt::captured_stderr();
  if (!noise.empty()) text += fmt::format("\nlast words of the plugin:\n{}\n", noise);
  return text;
}

// Writes to a descriptor and closes it; whether all went well.
bool write_and_close(int descriptor, std::string_view text) {
  bool good = true;
  while (good && !text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    good = n >= 0;
    if (good) text.remove_prefix(static_cast<size_t>(n));
  }
  return ::close(descriptor) == 0 && good;
}

// Where it was written, or nothing when nowhere could be. O_EXCL: neither a file that is there nor what a link points to is
// written over.
std::string write_report(const std::string& text) {
  if (const std::string& workdir = crash_context().workdir; !workdir.empty()) {
    std::string path = fmt::format("{}/crash-{}.txt", workdir, time_text());
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor >= 0 && write_and_close(descriptor, text)) return path;
  }
  const char* directory = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/tessera-crash-XXXXXX", directory != nullptr && *directory != '\0' ? directory : "/tmp");
  const int descriptor = ::mkstemp(path.data());  // mode 0600
  return descriptor >= 0 && write_and_close(descriptor, text) ? path : std::string();
}

[[noreturn]] void on_terminate() {
  // One thread tells and ends the process. Others that fail wait for that; one that fails while it tells is here again.
  static std::atomic<std::thread::id> teller;
  std::thread::id first;
  if (!teller.compare_exchange_strong(first, std::this_thread::get_id())) {
    // There may be no memory left: this message takes none.
    if (first == std::this_thread::get_id())
      _exit(static_cast<int>(tell_refused(log_descriptor(), {}) ? Exit::kDevice : Exit::kInternal));
    for (;;) ::pause();
  }
  if (const std::optional<std::string> refused = exhausted()) {
    log_status("");
    log_error(*refused);
    _exit(static_cast<int>(Exit::kDevice));
  }
  const std::string reason = exception_text();
  const std::string path = write_report(report(reason));
  log_status("");
  log_error(reason);
  log_line(path.empty()
               ? "This is a bug of the program, not of yours. No file could be written about it."
               : fmt::format("This is a bug of the program, not of yours. `{}` holds what is needed to find it: version, "
                             "command, recipe and stack. Please send it with a report; nothing was sent by itself.",
                             path));
  _exit(static_cast<int>(Exit::kInternal));
}

}  // namespace

CrashContext& crash_context() {
  static CrashContext context;
  return context;
}

void install_crash_handler() { std::set_terminate(on_terminate); }

}  // namespace tessera::cli
