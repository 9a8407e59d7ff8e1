#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// Group normalisation (Wu & He 2018): over the pixels and channels of each of `groups` groups of neighbouring channels, then *
// scale + bias; the biased variance; in f32, given back in x's dtype. x [batch, h, w, features]; `groups` divides features.
// Parameters `scale` and `bias` [features].
ir::Value group_norm(const Scope& scope, ir::Value x, int64_t groups, double epsilon, const Init& scale_init = init::ones());

}  // namespace tessera::nn
