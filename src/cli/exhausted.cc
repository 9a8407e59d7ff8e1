#include "cli/exhausted.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <exception>
#include <new>
#include <system_error>

#include "base/system/refused.h"
#include "base/text/text.h"
#include "store/file.h"

namespace tessera::cli {
namespace {

// " (ulimit -v is …)" where there is such a limit.
std::string limit_text(__rlimit_resource resource, const char* flag, bool bytes) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  const std::string value =
      bytes ? human_bytes(static_cast<double>(limit.rlim_cur)) : human_count(static_cast<int64_t>(limit.rlim_cur));
  return fmt::format(" (`ulimit {}` is {})", flag, value);
}

std::string memory_text() {
  std::string limit = limit_text(RLIMIT_AS, "-v", true);
  if (limit.empty()) limit = limit_text(RLIMIT_DATA, "-d", true);
  return fmt::format(
      "the memory that {} is used up{}\nhelp: make `data.batch`, `data.prefetch`, `data.threads` or the model "
      "smaller{}",
      limit.empty() ? "the machine has" : "this process may take", limit, limit.empty() ? "" : ", or raise the limit");
}

}  // namespace

std::optional<std::string> exhausted() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return std::nullopt;
  try {
    std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    return memory_text();
  } catch (const store::OutOfFiles& error) {
    return fmt::format("{}{}\nhelp: {}", error.what(), limit_text(RLIMIT_NOFILE, "-n", false),
                       error.of_process() ? "raise the limit of open files: `ulimit -n`"
                                          : "raise the machine's limit of open files: `sysctl fs.file-max`");
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return std::nullopt;
    // A thread is refused in the same words where there is no memory for its stack.
    if (!thread_is_refused() && memory_ran_out()) return memory_text();
    return fmt::format(
        "the system refuses another thread: {}{}\nhelp: set `data.threads` lower, or raise the limit: `ulimit -u` "
        "and the container's pids.max",
        error.code().message(), limit_text(RLIMIT_NPROC, "-u", false));
  } catch (...) {
  }
  return std::nullopt;
}

}  // namespace tessera::cli
