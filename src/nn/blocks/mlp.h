#pragma once

#include "nn/scope.h"

namespace tessera::nn {

enum class Activation { kGelu, kGeluTanh };

struct MlpOptions {
  int64_t hidden = 0;
  Activation activation = Activation::kGelu;
  bool bias = true;
  double dropout = 0;  // after the activation and, where `dropout_output`, after the second layer
  Init kernel_init = init::lecun_normal();
  Init bias_init = init::zeros();
  bool dropout_output = true;
};

// dense `fc1` -> activation -> dense `fc2`, back to x's width: [rows, features] -> the same. The two products are named "fc1"
// and "fc2" for remat policies.
ir::Value mlp(const Scope& scope, ir::Value x, const MlpOptions& options);

}  // namespace tessera::nn
