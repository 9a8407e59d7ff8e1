#pragma once
// The two branches of a pre-norm block, and an MLP by itself, as composites: dense layers with the norm, activation, bias and
// addition around them. They compute the same functions as layer_norm, attention and mlp, with the same parameters and the same
// names for remat policies.

#include "ir/composites.h"
#include "nn/blocks/attention.h"
#include "nn/blocks/mlp.h"
#include "nn/scope.h"

namespace tessera::nn {

// Whether these branches are to stand for attention(layer_norm(x)) and mlp(layer_norm(x)) of x [rows, features]: nothing is
// dropped inside of them, queries and keys have no norm, and the target has kernels for all of their composites, of the first
// `tokens` of each sample behind the attention. That is asked while the block is traced, and not of the finished graph, since
// the gradient of a fused branch is another one than that of its layers: an addition goes into the norm's gradient, and what is
// between is not kept.
bool fused_attention_fits(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const AttentionOptions& options);
// Of mlp(x) itself where `input` is kPlain.
bool fused_mlp_fits(const Scope& scope, ir::Value x, const MlpOptions& options, ir::DenseInput input = ir::DenseInput::kNorm);

// What becomes of a branch's result: x is added to it, or it is left to the caller, who scales or drops it first.
enum class Residual { kAdded, kLeft };

// attention(norm(x)), of the first `tokens` of each sample: x [batch * all tokens, features] -> [batch * tokens, features].
// `norm` and `attn` are the layers' scopes.
ir::Value fused_attention_branch(const Scope& norm, const Scope& attn, ir::Value x, int64_t batch, int64_t tokens,
                                 double epsilon, const AttentionOptions& options, Residual residual);

// mlp(norm(x)).
ir::Value fused_mlp_branch(const Scope& norm, const Scope& mlp, ir::Value x, double epsilon, const MlpOptions& options,
                           Residual residual);

// mlp(x), as mlp() computes it where it fits.
ir::Value fused_mlp(const Scope& scope, ir::Value x, const MlpOptions& options);

}  // namespace tessera::nn
