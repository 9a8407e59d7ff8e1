#include "cli/optional_work.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system/file_calls.h"

namespace tessera::cli {

std::optional<std::string> do_if_files_come(std::function<void()> work, double patience_seconds,
                                            const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kLook{20};
  std::packaged_task<void()> task(std::move(work));
  auto done = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    return fmt::format("the system has no thread for it: {}", error.code().message());
  }
  while (done.wait_for(kLook) != std::future_status::ready) {
    if (stop()) return "a signal came first";
    if (const auto slow = slow_file_call(patience_seconds)) return text_of(*slow);
  }
  done.get();
  return std::nullopt;
}

}  // namespace tessera::cli
