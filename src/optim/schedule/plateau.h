#pragma once
// A rate that falls when an evaluator's score stops getting better: torch's ReduceLROnPlateau with relative threshold, which
// timm's PlateauLRScheduler wraps. It is decided on the host after evaluations, so that its state is part of a run's.

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::optim {

struct PlateauOptions {
  std::string metric;  // as metrics are named: "val/prec@1"
  bool higher_is_better = true;
  double factor = 0.1;      // times the rate
  int64_t patience = 10;    // evaluations without a better score that are let pass
  double threshold = 1e-4;  // share by which a score must be better to count
  int64_t cooldown = 0;     // evaluations after a fall that don't count
  double min_scale = 0;     // the least rate, relative to the schedule's
  int64_t begins = 0;       // evaluations up to this step (the warm-up) don't count
};

struct PlateauState {
  double scale = 1;  // what the rate is multiplied by
  std::optional<double> best;
  int64_t bad = 0, cooldown = 0;
  bool operator==(const PlateauState&) const = default;
};

// The state after a score of `step`. A fall of less than 1e-8 of the schedule's rate is left out, as torch does with the rate.
PlateauState after_score(const PlateauOptions& options, PlateauState state, int64_t step, double score);

}  // namespace tessera::optim
