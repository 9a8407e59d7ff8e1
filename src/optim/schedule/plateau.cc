#include "optim/schedule/plateau.h"

#include <algorithm>

namespace tessera::optim {
namespace {

bool better(const PlateauOptions& options, const PlateauState& state, double score) {
  if (!state.best) return true;
  return options.higher_is_better ? score > *state.best * (1 + options.threshold)
                                  : score < *state.best * (1 - options.threshold);
}

}  // namespace

PlateauState after_score(const PlateauOptions& options, PlateauState state, int64_t step, double score) {
  if (step <= options.begins) return state;
  if (better(options, state, score)) {
    state.best = score;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad <= options.patience) return state;
  const double scale = std::max(state.scale * options.factor, options.min_scale);
  if (state.scale - scale > 1e-8) state.scale = scale;
  state.cooldown = options.cooldown;
  state.bad = 0;
  return state;
}

}  // namespace tessera::optim
