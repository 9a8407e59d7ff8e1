#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// x * gamma over the last axis (Touvron et al. 2021). Parameter `gamma` [features], all `initial` at first.
ir::Value layer_scale(const Scope& scope, ir::Value x, double initial);

}  // namespace tessera::nn
