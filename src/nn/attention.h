#pragma once
// Multi-head attention on flattened tokens. Heads stand as [batch, heads, tokens, head width] after one transpose, and the
// products have two batch dimensions: as fast as merged heads, and the head axis can be sharded.

#include "nn/scope.h"

namespace tessera::nn {

// softmax(q k^T / sqrt(head width)) v; the softmax in f32, dropout on the probabilities. q [batch, heads, queries, width],
// k and v [batch, heads, keys, width] -> [batch, heads, queries, width]. Draws from scope / "drop".
ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double dropout = 0);

// [batch * tokens, parts * heads * width] -> `parts` values [batch, heads, tokens, width].
ir::Values split_heads(ir::Value x, int64_t batch, int64_t heads, int64_t parts);
// [batch, heads, tokens, width] -> [batch * tokens, heads * width].
ir::Value merge_heads(ir::Value x);

struct AttentionOptions {
  int64_t heads = 1;  // divides the width
  bool qkv_bias = true;
  bool proj_bias = true;
  bool qk_norm = false;     // layer norm of each head's queries and keys: `q_norm`, `k_norm`
  double epsilon = 1e-6;    // of these norms
  double attn_dropout = 0;  // of the probabilities
  double dropout = 0;       // of the output
  Init qkv_init = init::xavier_uniform(3);
  Init proj_init = init::xavier_uniform();
};

// Self-attention: [batch * tokens, features] -> the same. Layers `qkv` (one kernel [features, 3 * features], q then k then v)
// and `proj`. The products are named "qkv", "attention" and "proj" for remat policies.
ir::Value attention(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options);

}  // namespace tessera::nn
