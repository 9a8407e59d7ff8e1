#include "models/vit/vit.h"

#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "models/vit/vit_init.h"
#include "nn/blocks/attention_pool.h"
#include "nn/blocks/encoder_blocks.h"
#include "nn/dense.h"
#include "nn/dropout.h"
#include "nn/norm/layer_norm.h"
#include "nn/patch_embed.h"

namespace tessera::models {

ir::Value ViT::add_positions(const nn::Scope& scope, ir::Value x) const {
  if (config_.posemb == PosEmb::kNone) return x;
  const Dims dims = {1, config_.positions(), config_.width};
  const ir::Value positions = config_.posemb == PosEmb::kSincos2d ? sincos2d(config_.rows(), config_.columns(), config_.width)
                                                                  : scope.param("pos_embed", dims, vit_init(config_).positions);
  return x + ir::convert(positions, x.dtype());
}

ir::Value ViT::embed(const nn::Scope& scope, ir::Value images) const {
  const ViTInit init = vit_init(config_);
  const int64_t batch = images.dim(0), width = config_.width;
  const nn::DenseOptions patches{!config_.pre_norm, init.patch_kernel, init.patch_bias};
  ir::Value x = nn::patch_embed(scope / "patch_embed", images, width, config_.patch, patches);
  x = ir::reshape(x, {batch, config_.rows() * config_.columns(), width});

  ir::Values parts;
  if (config_.class_token) {
    parts.push_back(ir::broadcast_to(scope.compute_param("cls_token", {1, 1, width}, init.cls_token), {batch, 1, width}));
  }
  if (config_.distilled) {
    parts.push_back(ir::broadcast_to(scope.compute_param("dist_token", {1, 1, width}, init.dist_token), {batch, 1, width}));
  }
  if (const int64_t count = config_.reg_tokens; count > 0) {
    parts.push_back(
        ir::broadcast_to(scope.compute_param("reg_token", {1, count, width}, init.reg_token), {batch, count, width}));
  }
  if (!config_.posemb_prefix) x = add_positions(scope, x);
  if (!parts.empty()) {
    parts.push_back(x);
    x = ir::concatenate(parts, 1);
  }
  if (config_.posemb_prefix) x = add_positions(scope, x);
  x = ir::reshape(nn::dropout(scope / "embed_drop", x, config_.embed_dropout), {batch * config_.tokens(), width});
  x = nn::shard(scope, x, {nn::Along::kBatch});
  return config_.pre_norm ? nn::layer_norm(scope / "norm_pre", x, config_.norm_epsilon) : x;
}

ir::Value ViT::blocks(const nn::Scope& scope, ir::Value x, int64_t batch) const {
  const ViTInit init = vit_init(config_);
  nn::EncoderBlockOptions block;
  block.epsilon = config_.norm_epsilon;
  block.layer_scale = config_.layer_scale;
  block.mlp = {config_.mlp_dim, config_.gelu, config_.proj_bias, config_.dropout, init.dense, init.mlp_bias};
  nn::AttentionOptions& attention = block.attention;
  attention.heads = config_.heads;
  attention.qkv_bias = config_.qkv_bias;
  attention.proj_bias = config_.proj_bias;
  attention.qk_norm = config_.qk_norm;
  attention.epsilon = config_.norm_epsilon;
  attention.attn_dropout = config_.attn_dropout;
  attention.dropout = config_.dropout;
  attention.qkv_init = init.qkv;
  attention.proj_init = init.dense;
  const nn::BlockOptions depth{config_.depth, nn::linear_rates(config_.drop_path, config_.depth), config_.remat};
  return nn::encoder_blocks(scope, x, batch, depth, block, {}, config_.seen_tokens());
}

namespace {

// Of [batch, tokens, width].
ir::Value token(ir::Value x, int64_t at) { return ir::squeeze(ir::slice_axis(x, 1, at, at + 1), 1); }

// Of one or two.
ir::Value mean_of(const ir::Values& x) { return x.size() == 1 ? x[0] : (x[0] + x[1]) * 0.5; }

}  // namespace

ir::Value ViT::pool(const nn::Scope& scope, ir::Value x, int64_t batch) const {
  const int64_t width = config_.width, tokens = x.dim(0) / batch;
  if (config_.pool == Pool::kNone) return x;
  x = ir::reshape(x, {batch, tokens, width});
  if (config_.pool == Pool::kTok) return token(x, 0);
  const int64_t prefix = config_.pool_prefix ? 0 : config_.prefix_tokens();
  if (prefix > 0) x = ir::slice_axis(x, 1, prefix, tokens);
  if (config_.pool == Pool::kGap) return ir::mean(x, {1});

  const ViTInit init = vit_init(config_);
  nn::AttentionPoolOptions options;
  options.heads = config_.heads;
  options.epsilon = config_.norm_epsilon;
  options.mlp = {config_.mlp_dim, config_.gelu, true, 0, init.dense, init.mlp_bias};
  options.latent_init = init.latent;
  options.q_init = options.proj_init = init.dense;
  options.kv_init = init.kv;
  return nn::attention_pool(scope / "attn_pool", ir::reshape(x, {batch * (tokens - prefix), width}), batch, options);
}

ir::Value ViT::encode(const nn::Scope& scope, ir::Value images) const {
  const InputShape& in = config_.input;
  TESSERA_CHECK(images.rank() == 4 && images.dim(1) == in.height && images.dim(2) == in.width && images.dim(3) == in.channels,
                "images of {} for a model of [batch, {}, {}, {}]", to_string(images.dims()), in.height, in.width, in.channels);
  const ir::Value x = blocks(scope / "blocks", embed(scope, images), images.dim(0));
  if (config_.final_norm != FinalNorm::kBeforePool) return x;
  return nn::layer_norm(scope / "norm", x, config_.final_norm_epsilon);
}

ir::Values ViT::head_inputs(const nn::Scope& scope, ir::Value x, int64_t batch) const {
  if (config_.distilled) {
    x = ir::reshape(x, {batch, -1, config_.width});
    return {token(x, 0), token(x, 1)};
  }
  x = pool(scope, x, batch);
  if (config_.final_norm == FinalNorm::kAfterPool) x = nn::layer_norm(scope / "fc_norm", x, config_.final_norm_epsilon);
  if (config_.rep_size > 0) {
    x = ir::tanh(nn::dense(scope / "pre_logits", x, config_.rep_size, {true, vit_init(config_).rep_kernel}));
  }
  return {config_.pool == Pool::kNone ? ir::reshape(x, {batch, config_.tokens(), x.dim(-1)}) : x};
}

ir::Value ViT::features(const nn::Scope& scope, ir::Value images) const {
  return mean_of(head_inputs(scope, encode(scope, images), images.dim(0)));
}

ir::Value ViT::logits(const nn::Scope& scope, ir::Value images) const { return mean_of(head_logits(scope, images)); }

std::vector<std::string> ViT::heads() const {
  return config_.distilled ? std::vector<std::string>{"head", "head_dist"} : std::vector<std::string>{"head"};
}

ir::Values ViT::head_logits(const nn::Scope& scope, ir::Value images) const {
  const nn::DenseOptions options{true, vit_init(config_).head, nn::init::constant(config_.head_bias)};
  ir::Values logits;
  for (const ir::Value seen : head_inputs(scope, encode(scope, images), images.dim(0))) {
    const std::string head = heads()[logits.size()];
    const ir::Value x = nn::dropout(scope / (head + "_drop"), seen, config_.head_dropout);
    Dims dims = x.dims();
    dims.back() = config_.input.classes;
    const ir::Value rows = nn::dense(scope / head, ir::reshape(x, {-1, x.dim(-1)}), config_.input.classes, options);
    logits.push_back(ir::convert(ir::reshape(rows, dims), DType::kF32));
  }
  return logits;
}

TimmMap ViT::timm_map() const {
  TimmMap map;
  map.entries = timm_entries(parameters(*this));
  for (TimmEntry& entry : map.entries) flat_patches(entry, "patch_embed", config_.patch, config_.input.channels);
  map.rows = config_.rows();
  map.columns = config_.columns();
  map.position_prefix = config_.posemb_prefix ? config_.prefix_tokens() : 0;
  if (config_.posemb == PosEmb::kSincos2d) map.fixed_positions = sincos2d_values(map.rows, map.columns, config_.width);
  return map;
}

TimmMap tower_map(const Model& model, const std::string& tower, const ViT& vit) {
  TimmMap map = vit.timm_map();
  map.entries = timm_entries(parameters(model));
  for (TimmEntry& entry : map.entries)
    flat_patches(entry, tower + ".patch_embed", vit.config().patch, vit.config().input.channels);
  map.positions = tower + "." + map.positions;
  map.fixed_positions.clear();  // no file has those of a tower
  return map;
}

// timm's group_matcher: the embedding, each block (the final norm with the last one), the head.
std::vector<LayerRule> ViT::layers() const {
  return {{"(cls_token|dist_token|reg_token|pos_embed|(patch_embed|norm_pre)/.*)", 0},
          {"blocks/.*", 1},
          {"norm/.*", config_.depth}};
}

std::string ViT::describe() const {
  const InputShape& in = config_.input;
  return fmt::format("ViT {} x {}, {} heads, patch {}, {} x {} images, {} classes", config_.width, config_.depth, config_.heads,
                     config_.patch, in.height, in.width, in.classes);
}

// ---- fixed positions

namespace {

std::vector<float> frequencies(int64_t width) {
  const int64_t count = width / 4;
  std::vector<float> w(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    w[static_cast<size_t>(i)] = static_cast<float>(std::pow(1e4, -static_cast<double>(i) / static_cast<double>(count - 1)));
  }
  return w;
}

}  // namespace

ir::Value sincos2d(int64_t rows, int64_t columns, int64_t width) {
  const ir::Value w = ir::constant_f32({width / 4}, frequencies(width));
  const auto angle = [&](int64_t axis) {
    const ir::Value at = ir::iota({DType::kF32, {rows, columns, 1}}, axis);
    return ir::broadcast_to(at * w, {rows, columns, width / 4});
  };
  const ir::Value x = angle(1), y = angle(0);
  return ir::reshape(ir::concatenate({ir::sin(x), ir::cos(x), ir::sin(y), ir::cos(y)}, 2), {1, rows * columns, width});
}

std::vector<float> sincos2d_values(int64_t rows, int64_t columns, int64_t width) {
  const std::vector<float> w = frequencies(width);
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * columns * width));
  for (int64_t y = 0; y < rows; ++y) {
    for (int64_t x = 0; x < columns; ++x) {
      for (const int64_t at : {x, y}) {
        for (const float f : w) values.push_back(static_cast<float>(std::sin(static_cast<double>(at) * f)));
        for (const float f : w) values.push_back(static_cast<float>(std::cos(static_cast<double>(at) * f)));
      }
    }
  }
  return values;
}

}  // namespace tessera::models
