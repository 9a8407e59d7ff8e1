#include "train/loop/save_time.h"

#include <fmt/format.h>

#include "base/text/text.h"

namespace tessera::train {

void SaveTime::took(std::chrono::milliseconds time) {
  int64_t longest = longest_;
  while (time.count() > longest && !longest_.compare_exchange_weak(longest, time.count())) {
  }
}

std::optional<std::string> SaveTime::warning() {
  const std::chrono::milliseconds longest(longest_);
  if (!given_ || told_ || 2 * longest < *given_) return std::nullopt;
  told_ = true;
  return fmt::format(
      "saving a checkpoint took {}, and the last one has {} s from the signal that asks for it (--save-timeout); where it "
      "takes longer, the run goes on from the one before; `tessera launch --save-timeout {}` gives it more",
      human_duration(std::chrono::duration<double>(longest).count()), given_->count(),
      std::chrono::ceil<std::chrono::seconds>(4 * longest).count());
}

}  // namespace tessera::train
