#pragma once
// Pre-norm transformer blocks (Dosovitskiy et al. 2021) one after the other.

#include <optional>

#include "nn/blocks/attention.h"
#include "nn/blocks/blocks.h"
#include "nn/blocks/mlp.h"

namespace tessera::nn {

struct EncoderBlockOptions {
  AttentionOptions attention;
  MlpOptions mlp;
  double epsilon = 1e-6;              // of the norms
  std::optional<double> layer_scale;  // first value of the factor on each branch
};

// Each block: x + attention(norm1(x)), then + mlp(norm2(x)); a branch is multiplied by its layer scale and dropped at the
// block's rate, where there are any. x [batch * tokens, features]; `mask` as in nn/blocks/attention.h. Layers `norm1`, `attn`, `ls1`,
// `norm2`, `mlp`, `ls2` of `scope`, which is called `blocks`. A branch that the target has kernels for is fused
// (nn/blocks/fused_block.h). Where both are, the blocks are written out, whatever depth.unroll says, unless the policy computes
// products again.
// `tokens`: how many of each sample's first tokens the rest of the model uses; 0: all. Where blocks are written out, with neither
// layer scale nor drop path, the last one computes no others after its attention, and the result is [batch * tokens, features].
// Elsewhere the result has all tokens.
ir::Value encoder_blocks(const Scope& scope, ir::Value x, int64_t batch, BlockOptions depth, const EncoderBlockOptions& options,
                         ir::Value mask = {}, int64_t tokens = 0);

// The names of a block's products, for remat policies.
const std::vector<std::string>& block_products();

}  // namespace tessera::nn
