#pragma once
// The two branches of a pre-norm transformer block as calls of the host's kernels, where the block is plain and small: norms,
// activation, biases and additions happen inside them. The same functions, parameters and names for remat policies as
// layer_norm, attention and mlp.

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/scope.h"

namespace tessera::nn {

// Whether these branches may stand for x + attention(layer_norm(x)) and x + mlp(layer_norm(x)): the kernels are there, it is
// f32, nothing is dropped, queries and keys have no norm, and each layer's weights fit in a core's cache.
bool host_block_fits(const Scope& scope, int64_t features, const AttentionOptions& attention, const MlpOptions& mlp);

// x + attention(norm(x)); x [batch * tokens, features]. `norm` and `attn` are the layers' scopes.
ir::Value host_attention_branch(const Scope& norm, const Scope& attn, ir::Value x, int64_t batch, double epsilon,
                                const AttentionOptions& options);

// x + mlp(norm(x)).
ir::Value host_mlp_branch(const Scope& norm, const Scope& mlp, ir::Value x, double epsilon, const MlpOptions& options);

}  // namespace tessera::nn
