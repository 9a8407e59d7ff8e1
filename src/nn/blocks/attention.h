#pragma once
// Multi-head attention on flattened tokens. Heads stand as [batch, tokens, heads, width], as the dense layers leave them; the
// products, over [batch, heads, tokens, width], have two batch dimensions: as fast as merged heads, and the head axis can be
// sharded.

#include "ir/composite.h"
#include "ir/composites.h"
#include "nn/dense.h"
#include "nn/scope.h"

namespace tessera::nn {

// softmax(q k^T / sqrt(width)) v; the softmax in f32, dropout on the probabilities. q [batch, queries, heads, width], k and v
// [batch, keys, heads, width] -> [batch, queries, heads, width]. `mask`, bool, broadcasts to [batch, heads, queries, keys]:
// where it is false the key is not seen; each query sees at least one. Draws from scope / "drop". Without dropout and mask this
// is the composite `attention`.
ir::Value dot_product_attention(const Scope& scope, ir::Value q, ir::Value k, ir::Value v, double dropout = 0,
                                ir::Value mask = {});

// The mask that lets a query see the keys up to its own place: bool [1, 1, length, length].
ir::Value causal_mask(int64_t length);

// One dense layer for several of {queries, keys, values}, side by side in one kernel [features, parts * heads * width].
struct HeadProjection {
  int64_t features = 0, heads = 1, parts = 3;
  DenseOptions dense;
  const char* checkpoint = nullptr;  // the product's name for remat policies
};
// [batch * tokens, features] -> `parts` values [batch, tokens, heads, width]. Over a tensor axis the heads are split.
ir::Values project_heads(const Scope& scope, ir::Value x, int64_t batch, const HeadProjection& projection);

// Attention of queries, keys and values side by side in one array, as `project_heads` has them before it takes them apart.
ir::Composite self_attention_composite(const ir::SelfAttention& shape);

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
// and `proj`. The products are named "qkv", "attention" and "proj" for remat policies. `mask` as above. Where nothing comes
// between the layers it is the composite `self_attention`.
ir::Value attention(const Scope& scope, ir::Value x, int64_t batch, const AttentionOptions& options, ir::Value mask = {});

// Keys and values of attention, [batch, tokens, heads, width] each.
struct KeysValues {
  ir::Value keys, values;
};

// Self-attention of one more token of each row: x [rows, features] at the place `position`, an integer scalar that is the same
// for all rows, attends to the tokens of its row up to itself -> [rows, features]. `cache` holds the rows' keys and values,
// [rows, tokens, heads, width]; those of x are put into it at `position`, and later positions are not looked at. The layers of
// attention(), without dropout.
ir::Value attention_step(const Scope& scope, ir::Value x, KeysValues& cache, ir::Value position,
                         const AttentionOptions& options);

// Keys and values of `memory` for cross_attention() of queries that have so many features: its layer `kv`.
KeysValues cross_keys_values(const Scope& scope, ir::Value memory, int64_t batch, int64_t features,
                             const AttentionOptions& options);
// cross_attention() of queries to a memory whose keys and values are known: its layers `q` and `proj`.
ir::Value cross_attention(const Scope& scope, ir::Value x, const KeysValues& memory, const AttentionOptions& options);

// Queries of x attend to the tokens of `memory`: [batch * queries, features], [batch * tokens, memory features] -> [batch *
// queries, features]. Layers `q`, `kv` (one kernel [memory features, 2 * features]) and `proj`. The products are named as
// those of self-attention for remat policies, `q` and `kv` both "qkv".
ir::Value cross_attention(const Scope& scope, ir::Value x, ir::Value memory, int64_t batch, const AttentionOptions& options);

}  // namespace tessera::nn
