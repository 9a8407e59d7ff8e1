#include "train/control/control.h"

#include <utility>

namespace tessera::train {

void RunControl::save(Saved saved) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      waiting_.push_back(std::move(saved));
      save_wanted_.store(true, std::memory_order_relaxed);
      return;
    }
    why = *ended_;
  }
  saved({.failure = why});
}

void RunControl::profile(double seconds, const Profiles::Done& done) {
  profiles_ ? profiles_->ask(seconds, done) : done({{}, "this run cannot be profiled"});
}

std::vector<RunControl::Saved> RunControl::take() {
  const std::lock_guard lock(mutex_);
  save_wanted_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

void RunControl::end(const std::string& why) {
  std::vector<Saved> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = why;
    waiting = std::exchange(waiting_, {});
    save_wanted_.store(false, std::memory_order_relaxed);
  }
  for (const Saved& saved : waiting) saved({.failure = why});
}

}  // namespace tessera::train
