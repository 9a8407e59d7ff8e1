#pragma once
// How several processes agree after which step they end or, where all of them write a checkpoint, save: each says what it is asked
// for as an argument of every step, and the step's last measurements are the sums over all of them (train/step/step.h).

#include <array>
#include <optional>
#include <vector>

#include "state/device_arrays.h"
#include "train/run/run.h"
#include "train/step/step.h"

namespace tessera::train {

class StopVotes {
 public:
  explicit StopVotes(Run& run) : run_(run) {}

  // The votes of this process on each device, behind its number where every process has a program of its own; null where it trains
  // alone.
  state::DeviceArrays* arguments();
  // `sums` [kVotes] of a step. All processes read them of the same step, while they work on the same next one, after which they
  // end; or all before the next one.
  void take(const float* sums);
  // Of a step that this process alone reads before the next one: taken when that has begun, as the others do.
  void keep(const float* sums) { kept_.emplace(sums, sums + kVotes); }
  void take_kept();

 private:
  Run& run_;
  using Votes = std::array<float, kVotes>;
  Votes own() const;

  std::optional<std::vector<float>> kept_;
  Votes voted_{};
  state::DeviceArrays votes_;
};

}  // namespace tessera::train
