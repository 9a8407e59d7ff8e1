#pragma once
// The transformer that stands for a text in contrastive models (Radford et al. 2021), as big_vision has it
// (models/proj/image_text/text_transformer.py): embedded ids and learned positions, pre-norm blocks as ViT's, a final norm, and
// one token or a pool of all.
//
// Parameters, and big_vision's names for them (a stacked one's first axis counts the blocks):
//   embed/embedding                 Embed_0/embedding
//   pos_embed                       pos_embedding
//   blocks/norm{1,2}/{scale,bias}   Encoder_0/encoderblock_<i>/LayerNorm_{0,1}
//   blocks/attn/{qkv,proj}/…        …/MultiHeadDotProductAttention_0/{query+key+value,out}
//   blocks/mlp/{fc1,fc2}/…          …/MlpBlock_0/Dense_{0,1}
//   norm/{scale,bias}               Encoder_0/encoder_norm
//   attn_pool/{latent,q,kv,proj,norm,mlp}  MAPHead_0/…, of pool map

#include <optional>
#include <string>

#include "models/option_checks.h"
#include "nn/scope.h"

namespace tessera::models {

struct TextOptions {
  std::optional<std::string> variant;
  std::optional<int64_t> width, depth, heads, mlp_dim, tokens, vocabulary;
  std::string pool = "last";
  bool causal = false;
  double dropout = 0;
  std::string remat = "auto";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "size, as B (see vit); the four below override it; 512 x 12 with 8 heads when not given");
    field("width", width, "size of a token");
    field("depth", depth, "number of blocks");
    field("heads", heads, "attention heads; divides width");
    field("mlp_dim", mlp_dim, "hidden size of the MLP; 4 x width where that is given and this is not");
    field("tokens", tokens, "length of a text; from the data when not given");
    field("vocabulary", vocabulary, "number of token ids; from the data when not given");
    field("pool", pool, "what represents the text: last or first (token), mean, max or map (attention pooling)");
    field("causal", causal, "a token sees only those before it and itself");
    field("dropout", dropout, "of attention outputs and in the MLP");
    field("remat", remat, may_change("what the backward pass recomputes of each block, as the image tower's"));
  }
};

enum class TextPool { kLast, kFirst, kMean, kMax, kMap };

// TextOptions with every choice made and checked.
struct TextConfig {
  int64_t tokens = 0, vocabulary = 0;
  int64_t width = 512, depth = 12, heads = 8, mlp_dim = 2048;
  TextPool pool = TextPool::kLast;
  bool causal = false;
  double dropout = 0;
  ir::RematPolicy remat;
};

// Throws usage Errors; without `fail` they name the option alone.
TextConfig resolve(const TextOptions& options, const InputShape& data = {}, const FailOption& fail = {});

class TextTransformer {
 public:
  explicit TextTransformer(TextConfig config) : config_(std::move(config)) {}

  // Ids i32 [rows, tokens] -> [rows, width].
  ir::Value features(const nn::Scope& scope, ir::Value ids) const;
  const TextConfig& config() const { return config_; }

 private:
  ir::Value embed(const nn::Scope& scope, ir::Value ids) const;             // -> [rows * tokens, width]
  ir::Value pool(const nn::Scope& scope, ir::Value x, int64_t rows) const;  // -> [rows, width]

  TextConfig config_;
};

}  // namespace tessera::models
