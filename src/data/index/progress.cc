#include "data/index/progress.h"

#include <fmt/core.h>

#include "base/log.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {
constexpr int64_t kFirstReport = 500, kInterval = 100;  // milliseconds
}  // namespace

IndexProgress::IndexProgress(std::string what, std::string unit, int64_t total)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      next_(kFirstReport),
      start_(std::chrono::steady_clock::now()) {}

IndexProgress::~IndexProgress() {
  if (shown_) log_status("");
}

double IndexProgress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void IndexProgress::add(int64_t count) {
  const int64_t done = done_ += count;
  const auto now = static_cast<int64_t>(seconds() * 1000);
  if (now < next_) return;
  const std::lock_guard lock(mutex_);
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  log_status(fmt::format("index of {}: {}{} {}", what_, human_count(done),
                         total_ > 0 ? fmt::format(" of {}", human_count(total_)) : "", unit_));
}

}  // namespace tessera::data
