#pragma once

#include "nn/dense.h"

namespace tessera::nn {

// Cuts images into patches and maps each to a token: [batch, h, w, c] -> [batch * tokens, features], tokens by rows of the grid
// [h / patch, w / patch]. Equal to a convolution of window and stride `patch` without padding, whose kernel [patch, patch, c,
// features] is kept flat: parameters `kernel` [patch * patch * c, features] (row, column, channel), `bias`. `patch` divides h
// and w.
ir::Value patch_embed(const Scope& scope, ir::Value images, int64_t features, int64_t patch, const DenseOptions& options = {});

}  // namespace tessera::nn
