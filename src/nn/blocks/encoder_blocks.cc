#include "nn/blocks/encoder_blocks.h"

#include <algorithm>

#include "nn/blocks/fused_block.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"

namespace tessera::nn {
namespace {

bool is_fused(const Scope& scope, ir::Value x, int64_t batch, const EncoderBlockOptions& options, bool drop, ir::Value mask) {
  return !options.layer_scale && !drop && !mask && fused_block_fits(scope, x, batch, options.attention, options.mlp);
}

ir::Value block(const Scope& scope, ir::Value x, int64_t batch, const EncoderBlockOptions& options, ir::Value drop_rate,
                ir::Value mask) {
  if (is_fused(scope, x, batch, options, static_cast<bool>(drop_rate), mask)) {
    x = fused_attention_branch(scope / "norm1", scope / "attn", x, batch, options.epsilon, options.attention);
    return fused_mlp_branch(scope / "norm2", scope / "mlp", x, options.epsilon, options.mlp);
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
                         ir::Value mask) {
  const bool drop = scope.random() && std::ranges::any_of(depth.drop_path, [](double rate) { return rate > 0; });
  // A block of calls is compiled in no time, and most of its time would go into stacks.
  depth.unroll = is_fused(scope, x, batch, options, drop, mask) && keeps(depth.remat, block_products());
  return scan_blocks(scope, x, depth, [&](const Scope& inner, ir::Value carry, ir::Value drop_rate) {
    return block(inner, carry, batch, options, drop_rate, mask);
  });
}

}  // namespace tessera::nn
