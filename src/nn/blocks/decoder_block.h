#pragma once

#include "nn/blocks/attention.h"
#include "nn/blocks/mlp.h"

namespace tessera::nn {

struct DecoderBlockOptions {
  AttentionOptions self, cross;
  MlpOptions mlp;
  double epsilon = 1e-6;  // of the norms
  bool norm_bias = true;
};

// A pre-norm transformer decoder block: x + attention(norm1(x)), + cross_attention(norm2(x), memory), + mlp(norm3(x)). x [rows
// * tokens, features], memory [batch * memory tokens, memory features]; `rows` is a multiple of `batch`: neighbouring rows of x
// attend to the same memory. `mask` (nn/blocks/attention.h) is of the self-attention, for `rows`. Layers `norm1`, `attn`, `norm2`,
// `cross`, `norm3`, `mlp`.
ir::Value decoder_block(const Scope& scope, ir::Value x, int64_t rows, ir::Value memory, int64_t batch, ir::Value mask,
                        const DecoderBlockOptions& options);

// The same of one more token of each row, x [rows, features] at the place `position`. `cache` holds the rows' keys and values of
// the self-attention so far and gets those of x (attention_step); `memory` those of cross_keys_values().
ir::Value decoder_block_step(const Scope& scope, ir::Value x, KeysValues& cache, const KeysValues& memory, ir::Value position,
                             const DecoderBlockOptions& options);

}  // namespace tessera::nn
