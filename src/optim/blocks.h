#pragma once
// Reductions over a parameter's array; of stacked parameters over each block's, as if it stood alone. Dimensions are kept,
// [1, …] or [depth, 1, …], so that results broadcast against the array.

#include "ir/graph.h"
#include "optim/param.h"

namespace tessera::optim {

ir::Value block_sum(const Param& param, ir::Value x);
ir::Value block_mean(const Param& param, ir::Value x);
ir::Value block_norm(const Param& param, ir::Value x);  // L2
ir::Value block_rms(const Param& param, ir::Value x);

// The mean over one axis, counted in one block's array.
ir::Value mean_along(const Param& param, ir::Value x, int64_t axis);

// `update` where its sign is the gradient's, scaled up by the share of such places (at least 1e-3), else 0 (Liang et al. 2024,
// Cautious Optimizers; timm's `caution`).
ir::Value cautious(const Param& param, ir::Value update, ir::Value grad);

}  // namespace tessera::optim
