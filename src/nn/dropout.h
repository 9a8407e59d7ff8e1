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

// DropBlock (Ghiasi et al. 2018) as timm's drop_block_2d: squares of `size` pixels, the same in all channels, become zero, and
// what is kept of the whole batch is multiplied by the number of its pixels over that of the kept ones. x [batch, h, w, channels];
// x itself when the scope draws nothing at random or the rate is 0. A square begins at each pixel with probability
//   gamma_scale rate h w / (size^2 (h - size + 1) (w - size + 1)).
struct DropBlockOptions {
  double rate = 0;
  int64_t size = 7;
  double gamma_scale = 1;
};
ir::Value drop_block(const Scope& scope, ir::Value x, const DropBlockOptions& options);

}  // namespace tessera::nn
