#pragma once

#include "nn/scope.h"

namespace tessera::nn {

// Global response normalisation of ConvNeXt V2 (Woo et al. 2023), timm's GlobalResponseNorm: x + bias + scale x g / (mean(g) +
// 1e-6), g the L2 norm of a channel over an image's pixels, the mean over channels. In f32, given back in x's dtype. x [batch,
// h, w, features]; parameters `scale` and `bias` [features], zeros at first.
ir::Value response_norm(const Scope& scope, ir::Value x);

}  // namespace tessera::nn
