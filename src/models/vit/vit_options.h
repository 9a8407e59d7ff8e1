#pragma once
// The options of the Vision Transformer as a recipe writes them, and what they come to.
//
// timm's VisionTransformer and big_vision's ViT are both configurations of it: `style` sets the defaults of the options in
// which they differ (those marked "style").
//
//   | option       | timm                                     | big_vision        |
//   | pool         | tok                                      | gap               |
//   | posemb_prefix| true: class and register tokens have     | false             |
//   |              | positions of their own                   |                   |
//   | final_norm   | after_pool for gap, before_pool else     | before_pool       |
//   | gelu         | exact                                    | tanh              |
//   | init         | timm                                     | big_vision        |

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ir/ops.h"
#include "models/model.h"
#include "models/option_checks.h"
#include "nn/blocks/mlp.h"

namespace tessera::models {

struct ViTOptions {
  std::string style = "timm";
  std::optional<std::string> variant;
  std::optional<int64_t> width, depth, heads, mlp_dim, patch, image_size, classes;
  std::optional<std::string> pool, posemb, final_norm, gelu, init, head_init;
  std::optional<bool> class_token, posemb_prefix;
  int64_t reg_tokens = 0;
  bool distilled = false;
  bool qkv_bias = true, proj_bias = true, qk_norm = false, pre_norm = false, pool_prefix = false;
  double norm_epsilon = 1e-6;
  std::optional<double> final_norm_epsilon, layer_scale;
  int64_t rep_size = 0;
  double head_bias = 0;
  double dropout = 0, embed_dropout = 0, attn_dropout = 0, head_dropout = 0, drop_path = 0;
  std::string remat = "auto";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("style", style, "whose defaults hold: timm or big_vision");
    field("variant", variant,
          "size and patch, as S/16: mu, Ti, S, M, B, L, So400m, H, g, g-opt, G or e; or a name of timm's, as "
          "deit3_small_patch16_224. Other options override it");
    field("width", width, "size of a token");
    field("depth", depth, "number of blocks");
    field("heads", heads, "attention heads; divides width");
    field("mlp_dim", mlp_dim, "hidden size of the MLP; 4 x width when not given");
    field("patch", patch, "side of a patch in pixels; divides the image size");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("classes", classes, "number of classes; from the data when not given");
    field("pool", pool, "gap (mean of tokens), map (attention pooling), tok (class token) or none (every token); style");
    field("posemb", posemb, "learned, sincos2d (fixed) or none");
    field("class_token", class_token, "prepend a learned token; true for pool tok when not given");
    field("posemb_prefix", posemb_prefix, "class and register tokens have learned positions too; style");
    field("reg_tokens", reg_tokens, "number of register tokens");
    field(
        "distilled", distilled,
        "a second token with a head of its own, which learns from a teacher (DeiT; objective distillation); the model's answer "
        "is the mean of both heads'");
    field("qkv_bias", qkv_bias, "bias of queries, keys and values");
    field("proj_bias", proj_bias, "bias of the attention's output and of the MLP");
    field("qk_norm", qk_norm, "layer norm of each head's queries and keys");
    field("pre_norm", pre_norm, "layer norm after the embedding, which then has no bias (CLIP)");
    field("final_norm", final_norm, "before_pool, after_pool or none; style");
    field("pool_prefix", pool_prefix, "gap and map see class and register tokens too");
    field("norm_epsilon", norm_epsilon, "epsilon of the layer norms");
    field("final_norm_epsilon", final_norm_epsilon, "epsilon of the final one, where it differs");
    field("layer_scale", layer_scale, "first value of the factor on each branch; none when not given");
    field("gelu", gelu, "exact or tanh; style");
    field("rep_size", rep_size, "width of a tanh layer before the head; 0 = none (big_vision)");
    field("init", init, "initial values: timm, jax (timm's copy of big_vision's) or big_vision; style");
    field("head_init", head_init, "the head's kernel: normal (0.02) or zeros; normal for init timm when not given");
    field("head_bias", head_bias, "first value of the head's bias: -log(classes) suits sigmoid losses");
    field("dropout", dropout, "of attention outputs and in the MLP");
    field("embed_dropout", embed_dropout, "of the embedded tokens");
    field("attn_dropout", attn_dropout, "of attention probabilities");
    field("head_dropout", head_dropout, "of what the head sees");
    field("drop_path", drop_path, "stochastic depth of the last block; grows linearly from 0 at the first");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the products) or "
                     "save(names…) of qkv, attention, proj, fc1, fc2"));
  }
};

enum class Pool { kGap, kMap, kTok, kNone };
enum class PosEmb { kLearned, kSincos2d, kNone };
enum class FinalNorm { kBeforePool, kAfterPool, kNone };
enum class InitScheme { kTimm, kJax, kBigVision };

// ViTOptions with every choice made and checked.
struct ViTConfig {
  InputShape input;
  int64_t width = 0, depth = 0, heads = 0, mlp_dim = 0, patch = 0;
  Pool pool = Pool::kTok;
  PosEmb posemb = PosEmb::kLearned;
  bool class_token = true, posemb_prefix = true;
  int64_t reg_tokens = 0;
  bool distilled = false;
  bool qkv_bias = true, proj_bias = true, qk_norm = false, pre_norm = false, pool_prefix = false;
  FinalNorm final_norm = FinalNorm::kBeforePool;
  double norm_epsilon = 1e-6, final_norm_epsilon = 1e-6;
  std::optional<double> layer_scale;
  nn::Activation gelu = nn::Activation::kGelu;
  int64_t rep_size = 0;
  InitScheme init = InitScheme::kTimm;
  bool head_zeros = false;
  double head_bias = 0;
  double dropout = 0, embed_dropout = 0, attn_dropout = 0, head_dropout = 0, drop_path = 0;
  ir::RematPolicy remat;

  int64_t rows() const { return input.height / patch; }  // of the grid of patches
  int64_t columns() const { return input.width / patch; }
  int64_t prefix_tokens() const { return (class_token ? 1 : 0) + (distilled ? 1 : 0) + reg_tokens; }
  int64_t tokens() const { return rows() * columns() + prefix_tokens(); }
  // The first tokens where the head sees no others; 0: it sees all.
  int64_t seen_tokens() const { return distilled ? 2 : pool == Pool::kTok ? 1 : 0; }
  // Tokens that have a position.
  int64_t positions() const { return rows() * columns() + (posemb_prefix ? prefix_tokens() : 0); }
};

// big_vision's sizes of transformers (models/vit.py, decode_variant).
struct ViTSize {
  const char* name;
  int64_t width, depth, mlp_dim, heads;
};
std::span<const ViTSize> vit_sizes();

// Fills in defaults and checks. Without `fail`, errors name the option alone.
ViTConfig resolve(const ViTOptions& options, const InputShape& data = {}, const FailOption& fail = {});

}  // namespace tessera::models
