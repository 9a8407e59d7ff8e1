#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// alpha * x + beta over the last axis: what ResMLP (Touvron et al. 2021) has for a norm. Parameters `alpha`, `beta` [1, 1,
// features].
ir::Value affine(const Scope& scope, ir::Value x);

}  // namespace tessera::nn
