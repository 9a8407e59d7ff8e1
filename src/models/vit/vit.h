#pragma once
// The Vision Transformer (Dosovitskiy et al. 2021) of timm and of big_vision; options in vit_options.h.
//
// Parameters, stacked ones first axis = depth:
//   patch_embed/{kernel,bias} cls_token dist_token reg_token pos_embed norm_pre/{scale,bias}
//   blocks/{norm1,norm2}/{scale,bias} blocks/attn/{qkv,proj}/{kernel,bias} blocks/attn/{q_norm,k_norm}/{scale,bias}
//   blocks/mlp/{fc1,fc2}/{kernel,bias} blocks/{ls1,ls2}/gamma
//   norm/{scale,bias} attn_pool/… fc_norm/{scale,bias} pre_logits/{kernel,bias} {head,head_dist}/{kernel,bias}
//
// The form of the program is fixed, being the fastest measured: one scan over stacked blocks (written out where a block is a
// few calls of the host's kernels), tokens flattened to [batch * tokens, width] for every dense layer, heads as [batch, heads,
// tokens, head width].

#include "models/model.h"
#include "models/vit/vit_options.h"

namespace tessera::models {

class ViT : public Classifier {
 public:
  explicit ViT(ViTConfig config) : config_(std::move(config)) {}

  // Pool "none" keeps every token: [batch, tokens, features], and logits [batch, tokens, classes]. Features of a distilled
  // model are the mean of its two tokens.
  ir::Value features(const nn::Scope& scope, ir::Value images) const override;
  ir::Value logits(const nn::Scope& scope, ir::Value images) const override;
  ir::Values head_logits(const nn::Scope& scope, ir::Value images) const override;
  std::vector<std::string> heads() const override;
  const InputShape& input() const override { return config_.input; }
  const Family& family() const override;
  TimmMap timm_map() const override;
  std::vector<LayerRule> layers() const override;
  std::string timm_args() const override;
  std::string describe() const override;

  const ViTConfig& config() const { return config_; }
  const ViTConfig* vit_config() const override { return &config_; }

 private:
  ir::Value embed(const nn::Scope& scope, ir::Value images) const;     // -> [batch * tokens, width]
  ir::Value add_positions(const nn::Scope& scope, ir::Value x) const;  // [batch, positions, width] -> the same
  ir::Value blocks(const nn::Scope& scope, ir::Value x, int64_t batch) const;
  ir::Value encode(const nn::Scope& scope,
                   ir::Value images) const;  // -> [batch * tokens, width], after norm; of the tokens that are seen, or of all
  // -> [batch, features], or all rows for pool none
  ir::Value pool(const nn::Scope& scope, ir::Value x, int64_t batch) const;
  // What the heads see of encoded tokens: [batch, features] each.
  ir::Values head_inputs(const nn::Scope& scope, ir::Value encoded, int64_t batch) const;

  ViTConfig config_;
};

// What `args`, arguments of timm's VisionTransformer as JSON, mean as options; everything unnamed has timm's default. A data
// error names `where` and the entry.
ViTOptions vit_options_of_timm(std::string_view args, const std::string& where);

// Fixed positions of big_vision's posemb_sincos_2d, temperature 1e4: [1, rows * columns, width], by quarters sin x, cos x, sin
// y, cos y of x w_i and y w_i, w_i = 1e4^(-i / (width / 4 - 1)). In the current graph, f32, and on the host.
ir::Value sincos2d(int64_t rows, int64_t columns, int64_t width);
std::vector<float> sincos2d_values(int64_t rows, int64_t columns, int64_t width);

// The map of a model that reads images by this ViT, its part `tower`: positions and patches are the ViT's, everything stands below
// the part's name.
TimmMap tower_map(const Model& model, const std::string& tower, const ViT& vit);

}  // namespace tessera::models
