#pragma once
// How several processes agree after which step they end: each says what it is asked for as an argument of every step, and the
// step's last measurements are the sums over all of them (train/step/step.h).

#include <optional>
#include <vector>

#include "base/error.h"
#include "state/device_arrays.h"
#include "train/run/run.h"
#include "train/step/step.h"

namespace tessera::train {

class StopVotes {
 public:
  explicit StopVotes(Run& run) : run_(run) {}

  // This process's number and votes, on each device; null where it trains alone.
  state::DeviceArrays* arguments();
  // `sums` [kVotes] of a step. All processes read them of the same step, while they work on the same next one, after which they
  // end; or all before the next one.
  void take(const float* sums);
  // Of a step that this process alone reads before the next one: taken when that has begun, as the others do.
  void keep(const float* sums) { kept_.emplace(sums, sums + kVotes); }
  void take_kept();

 private:
  Run& run_;
  std::optional<std::vector<float>> kept_;
  Exit voted_ = Exit::kDone;
  state::DeviceArrays votes_;
};

}  // namespace tessera::train
