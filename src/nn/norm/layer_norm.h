#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// (x - mean) / sqrt(var + epsilon) * scale + bias over the last axis, computed in f32 and given back in x's dtype. The variance
// is the biased one. Parameters `scale` and, unless left out, `bias` [features].
ir::Value layer_norm(const Scope& scope, ir::Value x, double epsilon = 1e-6, bool bias = true);

}  // namespace tessera::nn
