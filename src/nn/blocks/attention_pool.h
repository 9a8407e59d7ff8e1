#pragma once

#include "nn/blocks/mlp.h"

namespace tessera::nn {

struct AttentionPoolOptions {
  int64_t heads = 1;      // divides the width
  double epsilon = 1e-6;  // of the norm
  MlpOptions mlp;         // its kernel_init and bias_init are for the mlp alone
  Init latent_init = init::xavier_uniform();
  Init q_init = init::xavier_uniform();
  Init kv_init = init::xavier_uniform(2);
  Init proj_init = init::xavier_uniform();
};

// A learned query attends to all tokens of an image: the MAP head of big_vision (Zhai et al. 2022), timm's AttentionPoolLatent,
// which are the same function. y = proj(attention(q(latent), kv(x))), then y + mlp(norm(y)). x [batch * tokens, features] ->
// [batch, features]. Parameter `latent` [1, 1, features]; layers `q`, `kv`, `proj`, `norm`, `mlp`.
ir::Value attention_pool(const Scope& scope, ir::Value x, int64_t batch, const AttentionPoolOptions& options);

}  // namespace tessera::nn
