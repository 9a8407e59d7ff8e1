#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// Zeroes each element with probability `rate` and divides the others by 1 - rate, so that the mean stays; x itself when the
// scope draws nothing at random or the rate is 0. 0 <= rate < 1. The mask is a function of the scope's key.
ir::Value dropout(const Scope& scope, ir::Value x, double rate);

// Stochastic depth (Huang et al. 2016): zeroes all rows of a sample with probability `rate` and divides the others by 1 - rate.
// x [batch * rows a sample, …]; `rate` is an f32 scalar in [0, 1), which may differ by block. Call only when
// scope.random().
ir::Value drop_path(const Scope& scope, ir::Value x, int64_t batch, ir::Value rate);

}  // namespace tessera::nn
