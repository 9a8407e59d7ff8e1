#include "nn/blocks/encoder_blocks.h"

#include <algorithm>

#include "nn/blocks/fused_block.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"

namespace tessera::nn {
namespace {

// Which of a block's branches are fused, where the attention is asked for so many tokens.
struct Fused {
  bool attention, mlp;
};
Fused fused_in(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const EncoderBlockOptions& options,
               ir::Value mask) {
  return {!mask && fused_attention_fits(scope, x, batch, tokens, options.attention), fused_mlp_fits(scope, x, options.mlp)};
}

// The first `tokens` of each sample: all of them, or both branches are fused and nothing is done to their results.
ir::Value block(const Scope& scope, ir::Value x, int64_t batch, int64_t tokens, const EncoderBlockOptions& options,
                ir::Value drop_rate, ir::Value mask) {
  const Fused fused = fused_in(scope, x, batch, tokens, options, mask);
  const bool plain = !options.layer_scale && !drop_rate;
  const Residual residual = plain ? Residual::kAdded : Residual::kLeft;
  const auto add = [&](ir::Value y, bool is_fused, const char* ls, const char* drop) {
    if (is_fused && plain) return y;  // x is in it
    if (options.layer_scale) y = layer_scale(scope / ls, y, *options.layer_scale);
    return x + (drop_rate ? drop_path(scope / drop, y, batch, drop_rate) : y);
  };
  const Scope norm1 = scope / "norm1", attn = scope / "attn", norm2 = scope / "norm2", feed = scope / "mlp";
  const double epsilon = options.epsilon;
  x = add(fused.attention ? fused_attention_branch(norm1, attn, x, batch, tokens, epsilon, options.attention, residual)
                          : attention(attn, layer_norm(norm1, x, epsilon), batch, options.attention, mask),
          fused.attention, "ls1", "drop_path1");
  return add(fused.mlp ? fused_mlp_branch(norm2, feed, x, epsilon, options.mlp, residual)
                       : mlp(feed, layer_norm(norm2, x, epsilon), options.mlp),
             fused.mlp, "ls2", "drop_path2");
}

}  // namespace

const std::vector<std::string>& block_products() {
  static const std::vector<std::string> kProducts = {"qkv", "attention", "proj", "fc1", "fc2"};
  return kProducts;
}

ir::Value encoder_blocks(const Scope& scope, ir::Value x, int64_t batch, BlockOptions depth, const EncoderBlockOptions& options,
                         ir::Value mask, int64_t tokens) {
  const bool drop = scope.random() && std::ranges::any_of(depth.drop_path, [](double rate) { return rate > 0; });
  const int64_t all_tokens = x.dim(0) / batch;
  const auto fused = [&](int64_t of) {
    const Fused branches = fused_in(scope, x, batch, of, options, mask);
    return branches.attention && branches.mlp;
  };
  // A block of calls is compiled in no time, and most of its time would go into stacks.
  depth.unroll = fused(all_tokens) && keeps(depth.remat, block_products());
  const Block each = [&](const Scope& inner, ir::Value carry, ir::Value drop_rate) {
    return block(inner, carry, batch, all_tokens, options, drop_rate, mask);
  };
  Block last;
  if (tokens > 0 && depth.unroll && !drop && !options.layer_scale && fused(tokens)) {
    last = [&](const Scope& inner, ir::Value carry, ir::Value) { return block(inner, carry, batch, tokens, options, {}, {}); };
  }
  return scan_blocks(scope, x, depth, each, last);
}

}  // namespace tessera::nn
