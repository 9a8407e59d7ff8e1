#pragma once

#include "ir/ops.h"
#include "nn/scope.h"

namespace tessera::nn {

struct ConvOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // on every side; (window - 1) / 2 keeps the size at stride 1
  int64_t groups = 1;   // in and features divide by it; equal to `in`: depthwise
  bool bias = true;
  Init kernel_init = init::lecun_normal();
  Init bias_init = init::zeros();
};

// Two-dimensional convolution with a square window: [batch, h, w, in] -> [batch, h', w', features] in the compute dtype.
// Parameters `kernel` [window, window, in / groups, features], `bias` [features].
ir::Value conv(const Scope& scope, ir::Value x, int64_t features, int64_t window, const ConvOptions& options = {});

}  // namespace tessera::nn
