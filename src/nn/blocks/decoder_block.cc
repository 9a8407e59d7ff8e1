#include "nn/blocks/decoder_block.h"

#include "ir/ops.h"
#include "nn/norm/layer_norm.h"

namespace tessera::nn {

ir::Value decoder_block(const Scope& scope, ir::Value x, int64_t rows, ir::Value memory, int64_t batch, ir::Value mask,
                        const DecoderBlockOptions& options) {
  const auto norm = [&](const char* name) { return layer_norm(scope / name, x, options.epsilon, options.norm_bias); };
  x = x + attention(scope / "attn", norm("norm1"), rows, options.self, mask);
  x = x + cross_attention(scope / "cross", norm("norm2"), memory, batch, options.cross);
  return x + mlp(scope / "mlp", norm("norm3"), options.mlp);
}

ir::Value decoder_block_step(const Scope& scope, ir::Value x, KeysValues& cache, const KeysValues& memory, ir::Value position,
                             const DecoderBlockOptions& options) {
  const auto norm = [&](const char* name) { return layer_norm(scope / name, x, options.epsilon, options.norm_bias); };
  x = x + attention_step(scope / "attn", norm("norm1"), cache, position, options.self);
  x = x + cross_attention(scope / "cross", norm("norm2"), memory, options.cross);
  return x + mlp(scope / "mlp", norm("norm3"), options.mlp);
}

}  // namespace tessera::nn
