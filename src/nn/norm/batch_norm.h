#pragma once

#include "nn/scope.h"

namespace tessera::nn {

struct BatchNormOptions {
  double momentum = 0.1, epsilon = 1e-5;
  Init scale_init = init::ones();
  bool relu = false;   // afterwards
  ir::Value residual;  // of x's type: added before that; or none
  int64_t splits = 1;  // parts of the batch that have norms of their own in training
};

// torch's BatchNorm2d: (x - mean) / sqrt(variance + epsilon) * scale + bias, in f32, given back in x's dtype. x [batch, h, w,
// features]. In training mean and biased variance are those of all rows and pixels, of every device; the buffers `running_mean`
// and `running_var` [features] move towards the mean and the unbiased variance by `momentum`, and `num_batches_tracked` []
// counts. Else they are the buffers. Parameters `scale` and `bias` [features].
//
// With `splits`, timm's SplitBatchNorm2d: in training the rows are cut into so many equal parts, which stand one behind the other. The
// first part has this norm, and the others those of the scopes aux_bn/0, aux_bn/1, …, each with parameters and buffers of its own.
// Otherwise this norm serves all rows.
ir::Value batch_norm(const Scope& scope, ir::Value x, const BatchNormOptions& options = {});

}  // namespace tessera::nn
