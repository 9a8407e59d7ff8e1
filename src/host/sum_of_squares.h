#pragma once
// The sum of the squares of all numbers of several arrays, for norms of gradients, weights and steps.

#include <span>

#include "host/units/parallel_for.h"

namespace tessera::host {

// The same bits for any number of threads. Squares are of f32, as XLA's: what is beyond 1.8e19 gives infinity.
float sum_of_squares(std::span<const std::span<const float>> arrays, const ParallelFor& parallel);

}  // namespace tessera::host
