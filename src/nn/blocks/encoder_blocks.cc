#include "nn/blocks/encoder_blocks.h"

#include <algorithm>

#include "nn/blocks/fused_block.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"

namespace tessera::nn {
namespace {

bool is_fused(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const EncoderBlockOptions& options, bool drop,
              ir::Value mask) {
  return !options.layer_scale && !drop && !mask && fused_block_fits(scope, x, batch, tokens, options.attention, options.mlp);
}

ir::Value fused_block(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const EncoderBlockOptions& options) {
  x = fused_attention_branch(scope / "norm1", scope / "attn", x, batch, tokens, options.epsilon, options.attention);
  return fused_mlp_branch(scope / "norm2", scope / "mlp", x, options.epsilon, options.mlp);
}

ir::Value block(const Scope& scope, ir::Value x, int64_t batch, const EncoderBlockOptions& options, ir::Value drop_rate,
                ir::Value mask) {
  const int64_t tokens = x.dim(0) / batch;
  if (is_fused(scope, x, batch, tokens, options, static_cast<bool>(drop_rate), mask)) {
    return fused_block(scope, x, batch, tokens, options);
  }
  const auto branch = [&](ir::Value y, const char* ls, const char* drop) {
    if (options.layer_scale) y = layer_scale(scope / ls, y, *options.layer_scale);
    return drop_rate ? drop_path(scope / drop, y, batch, drop_rate) : y;
  };
  const ir::Value normed = layer_norm(scope / "norm1", x, options.epsilon);
  x = x + branch(attention(scope / "attn", normed, batch, options.attention, mask), "ls1", "drop_path1");

  const ir::Value hidden = layer_norm(scope / "norm2", x, options.epsilon);
  return x + branch(mlp(scope / "mlp", hidden, options.mlp), "ls2", "drop_path2");
}

}  // namespace

const std::vector<std::string>& block_products() {
  static const std::vector<std::string> kProducts = {"qkv", "attention", "proj", "fc1", "fc2"};
  return kProducts;
}

ir::Value encoder_blocks(const Scope& scope, ir::Value x, int64_t batch, BlockOptions depth, const EncoderBlockOptions& options,
                         ir::Value mask, int64_t tokens) {
  const bool drop = scope.random() && std::ranges::any_of(depth.drop_path, [](double rate) { return rate > 0; });
  const auto fused = [&](int64_t of) { return is_fused(scope, x, batch, of, options, drop, mask); };
  // A block of calls is compiled in no time, and most of its time would go into stacks.
  depth.unroll = fused(x.dim(0) / batch) && keeps(depth.remat, block_products());
  Block last;
  if (tokens > 0 && depth.unroll && fused(tokens)) {
    last = [&](const Scope& inner, ir::Value carry, ir::Value) { return fused_block(inner, carry, batch, tokens, options); };
  }
  const Block each = [&](const Scope& inner, ir::Value carry, ir::Value drop_rate) {
    return block(inner, carry, batch, options, drop_rate, mask);
  };
  return scan_blocks(scope, x, depth, each, last);
}

}  // namespace tessera::nn
