#pragma once
// The batches of steps whose updates were skipped, for people to look at:
//   <workdir>/bad_batches/step_000000120/batch.json   the step, why, what was measured, and of each row its place, the name of
//                                                     its sample, its label and its data set's name in a mixture
//                                        images.png   the first rows as the model is given them, from left to right and from the
//                                                     top: 256 of them and 16 million pixels at most

#include <cstdint>
#include <string>

#include "data/loader/loader.h"
#include "recipe/recipe.h"
#include "state/progress.h"

namespace tessera::train {

// How many of these directories stay: those of the latest steps.
inline constexpr size_t kBadBatches = 16;

struct BadBatch {
  int64_t step = 0;
  std::string why;  // "l2_grads is inf"
  state::StepMetrics metrics;
};

// Reads the batch of the step once more, which the order of a run's samples allows, and writes its directory. Returns that; empty
// where `stop` said true before the batch was read. Throws what the source or the disk does.
std::string keep_bad_batch(const recipe::Recipe& recipe, const std::string& workdir, const BadBatch& bad,
                           const data::StopWaiting& stop);

// Why the update of a step with these measurements was skipped: "training_loss is nan", or "l2_grads is 12.3, 8.1 times its average".
std::string why_skipped(const state::StepMetrics& metrics);

// The value of a measurement; 0 where there is none of the name.
float measurement(const state::StepMetrics& metrics, std::string_view name);

}  // namespace tessera::train
