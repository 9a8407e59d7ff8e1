#include "models/image_text/text_transformer.h"

#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/ops.h"
#include "models/vit/vit_options.h"
#include "nn/blocks/attention_pool.h"
#include "nn/blocks/encoder_blocks.h"
#include "nn/embedding.h"
#include "nn/norm/layer_norm.h"

namespace tessera::models {

using ir::Value;

namespace {

// big_vision's MLP, everywhere.
nn::MlpOptions mlp_options(int64_t hidden, double dropout) {
  return {hidden, nn::Activation::kGeluTanh, true, dropout, nn::init::xavier_uniform(), nn::init::normal(1e-6)};
}

}  // namespace

Value TextTransformer::embed(const nn::Scope& scope, Value ids) const {
  const nn::Init init = nn::init::normal(1 / std::sqrt(static_cast<double>(config_.width)));
  const Value x = nn::embedding(scope / "embed", ids, config_.vocabulary, config_.width, init);
  const Value positions = scope.param("pos_embed", {1, config_.tokens, config_.width}, init);
  return nn::shard(scope, ir::reshape(x + ir::convert(positions, x.dtype()), {-1, config_.width}), {nn::Along::kBatch});
}

Value TextTransformer::pool(const nn::Scope& scope, Value x, int64_t rows) const {
  const int64_t tokens = config_.tokens;
  if (config_.pool == TextPool::kMap) {
    nn::AttentionPoolOptions options;
    options.heads = config_.heads;
    options.mlp = mlp_options(config_.mlp_dim, 0);
    return nn::attention_pool(scope / "attn_pool", x, rows, options);
  }
  x = ir::reshape(x, {rows, tokens, config_.width});
  switch (config_.pool) {
    case TextPool::kFirst: return ir::squeeze(ir::slice_axis(x, 1, 0, 1), 1);
    case TextPool::kMean: return ir::mean(x, {1});
    case TextPool::kMax: return ir::reduce_max(x, {1});
    default: return ir::squeeze(ir::slice_axis(x, 1, tokens - 1, tokens), 1);
  }
}

Value TextTransformer::features(const nn::Scope& scope, Value ids) const {
  const int64_t rows = ids.dim(0);
  TESSERA_CHECK(ids.rank() == 2 && ids.dim(1) == config_.tokens, "texts {} of {} tokens", to_string(ids.dims()),
                config_.tokens);
  nn::EncoderBlockOptions block;
  block.attention.heads = config_.heads;
  block.attention.dropout = config_.dropout;
  block.mlp = mlp_options(config_.mlp_dim, config_.dropout);
  const Value mask = config_.causal ? nn::causal_mask(config_.tokens) : Value{};
  const Value x =
      nn::encoder_blocks(scope / "blocks", embed(scope, ids), rows, {config_.depth, {}, config_.remat}, block, mask);
  return pool(scope, nn::layer_norm(scope / "norm", x), rows);
}

namespace {

class TextResolver : private OptionChecks {
 public:
  TextResolver(const TextOptions& options, const FailOption& fail) : OptionChecks(fail), o_(options) {}

  TextConfig run(const InputShape& data) {
    sizes();
    c_.tokens = size_of_text("tokens", o_.tokens, data.tokens);
    c_.vocabulary = size_of_text("vocabulary", o_.vocabulary, data.vocabulary);
    c_.pool = static_cast<TextPool>(choose("pool", o_.pool, {"last", "first", "mean", "max", "map"}));
    c_.causal = o_.causal;
    c_.dropout = rate("dropout", o_.dropout);
    c_.remat = remat(o_.remat, nn::block_products());
    return c_;
  }

 private:
  void variant() {
    std::vector<std::string> names;
    for (const ViTSize& size : vit_sizes()) {
      names.push_back(size.name);
      if (*o_.variant != size.name) continue;
      c_.width = size.width, c_.depth = size.depth, c_.mlp_dim = size.mlp_dim, c_.heads = size.heads;
      return;
    }
    fail("variant", fmt::format("`{}` is of no known size", *o_.variant), suggest_name(*o_.variant, names));
  }

  void sizes() {
    if (o_.variant) variant();
    c_.width = positive("width", o_.width.value_or(c_.width));
    c_.depth = blocks("depth", o_.depth.value_or(c_.depth));
    c_.heads = positive("heads", o_.heads.value_or(c_.heads));
    if (o_.width) c_.mlp_dim = 4 * c_.width;
    c_.mlp_dim = positive("mlp_dim", o_.mlp_dim.value_or(c_.mlp_dim));
    check_heads("heads", c_.heads, c_.width);
  }

  const TextOptions& o_;
  TextConfig c_;
};

}  // namespace

TextConfig resolve(const TextOptions& options, const InputShape& data, const FailOption& fail) {
  return TextResolver(options, fail).run(data);
}

}  // namespace tessera::models
