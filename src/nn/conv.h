#pragma once

#include <optional>

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
  // Weight standardisation (Qiao et al. 2019): the kernel of each feature minus its mean, divided by sqrt(variance + this), the
  // biased variance; in f32.
  std::optional<double> standardize;
};

// torch's kaiming_normal_(mode="fan_out", nonlinearity="relu") of a kernel of one group: N(0, 2 / (features window^2)).
Init kaiming_fan_out(int64_t features, int64_t window);

// Two-dimensional convolution with a square window: [batch, h, w, in] -> [batch, h', w', features] in the compute dtype.
// Parameters `kernel` [window, window, in / groups, features], `bias` [features].
ir::Value conv(const Scope& scope, ir::Value x, int64_t features, int64_t window, const ConvOptions& options = {});

}  // namespace tessera::nn
