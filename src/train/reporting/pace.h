#pragma once
// How fast a run goes on, for the time that is left.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace tessera::train {

// What a step takes: a mean over intervals of steps in which the one at hand counts fully, and each before it less. The first step
// of a start is left out, since its time holds warm-up.
class Pace {
 public:
  // `step` is done, and steps of the interval at hand have taken so long.
  void known(int64_t step, double interval_seconds) {
    if (!from_) from_ = {step, interval_seconds};
    steps_ = static_cast<double>(step - from_->step);
    seconds_ = std::max(0.0, interval_seconds - from_->seconds);
    last_step_ = step;
  }
  void end_interval() {
    if (!from_) return;
    from_ = {last_step_, 0};
    if (steps_ == 0) return;
    earlier_steps_ = kEarlier * earlier_steps_ + std::exchange(steps_, 0);
    earlier_seconds_ = kEarlier * earlier_seconds_ + std::exchange(seconds_, 0);
  }
  // 0: not known.
  double seconds_per_step() const {
    const double steps = kEarlier * earlier_steps_ + steps_;
    return steps > 0 ? (kEarlier * earlier_seconds_ + seconds_) / steps : 0;
  }

 private:
  static constexpr double kEarlier = 0.8;
  struct Place {
    int64_t step = 0;
    double seconds = 0;
  };
  std::optional<Place> from_;  // of the interval at hand, from which on it counts
  int64_t last_step_ = 0;
  double steps_ = 0, seconds_ = 0;                  // of the interval at hand
  double earlier_steps_ = 0, earlier_seconds_ = 0;  // of those before it
};

}  // namespace tessera::train
