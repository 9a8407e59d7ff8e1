#pragma once

#include "ir/ops.h"
#include "nn/scope.h"

namespace tessera::nn {

// The largest number that a square window sees at each place: [batch, h, w, c] -> [batch, h', w', c]. What the padding adds on
// every side does not count. Backward, the first of several largest gets all.
ir::Value max_pool(const Scope& scope, ir::Value x, int64_t window, int64_t stride, int64_t padding = 0);

}  // namespace tessera::nn
