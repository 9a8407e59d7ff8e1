#pragma once
// The two branches of a plain pre-norm transformer block as composites: dense layers with the norm, activation, bias and
// addition around them. They compute the same functions as layer_norm, attention and mlp, with the same parameters and the
// same names for remat policies.

#include "nn/blocks/attention.h"
#include "nn/blocks/mlp.h"
#include "nn/scope.h"

namespace tessera::nn {

// Whether these branches are to stand for x + attention(layer_norm(x)) and x + mlp(layer_norm(x)) of x [rows, features]: the
// block is plain (nothing is dropped, queries and keys have no norm), and the target has kernels for all of their
// composites, of the first `tokens` of each sample behind the attention. That is asked while the block is traced, and not of
// the finished graph, since the gradient of a fused branch is another one than that of its layers: the addition goes into the
// norm's gradient, and what is between is not kept.
bool fused_block_fits(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const AttentionOptions& attention,
                      const MlpOptions& mlp);

// x + attention(norm(x)), of the first `tokens` of each sample: x [batch * all tokens, features] -> [batch * tokens, features].
// `norm` and `attn` are the layers' scopes.
ir::Value fused_attention_branch(const Scope& norm, const Scope& attn, ir::Value x, int64_t batch, int64_t tokens,
                                 double epsilon, const AttentionOptions& options);

// x + mlp(norm(x)).
ir::Value fused_mlp_branch(const Scope& norm, const Scope& mlp, ir::Value x, double epsilon, const MlpOptions& options);

}  // namespace tessera::nn
