#pragma once

#include "nn/scope.h"

namespace tessera::nn {

struct DenseOptions {
  bool bias = true;
  Init kernel_init = init::lecun_normal();
  Init bias_init = init::zeros();
};

// x kernel + bias: [rows, in] -> [rows, features], in the compute dtype. Tokens of all images are rows: products over [rows,
// in] are faster than over [batch, tokens, in]. Parameters `kernel` [in, features], `bias` [features].
ir::Value dense(const Scope& scope, ir::Value x, int64_t features, const DenseOptions& options = {});

// x kernel alone: [rows, in] and [in, features], both in the compute dtype; rows are those of the batch.
ir::Value rows_product(const Scope& scope, ir::Value x, ir::Value kernel);

}  // namespace tessera::nn
