#include "pjrt/large_temporaries.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/system/large_blocks.h"

namespace tessera::pjrt {
namespace {

// How long a run waits for the memory of the last one at most, and how often it looks. Somebody else may have taken the block
// meanwhile: then the run begins without it.
constexpr std::chrono::microseconds kLongestWait{20'000}, kPause{50};

void await_all(const std::vector<Event>& events) {
  for (const Event& event : events) {
    try {
      event.await();
    } catch (const Error&) {  // it comes out of the run's outputs
    }
  }
}

void await_free(int64_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  const auto missing = [&] {
    const std::optional<int64_t> free = free_large_blocks();
    return free && *free < bytes;
  };
  while (missing() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kPause);
}

}  // namespace

void LargeTemporaries::before_run(const std::string& program, std::span<const size_t> devices) {
  Run last;
  bool another = false;
  {
    const std::scoped_lock lock(mutex_);
    last = std::exchange(runs_[devices[0]], {});
    another = std::exchange(program_, program) != program;
  }
  if (!last.complete.empty()) {
    await_all(last.complete);
    await_free(last.bytes);
  }
  if (another) give_back_large_blocks();
}

void LargeTemporaries::began(std::span<const size_t> devices, int64_t bytes, std::vector<Event> complete) {
  const std::scoped_lock lock(mutex_);
  runs_[devices[0]] = {bytes, std::move(complete)};
}

}  // namespace tessera::pjrt
