#pragma once
// CapPa (Tschannen et al. 2023, "Image captioners are scalable vision learners too"; big_vision's models/proj/cappa/cappa.py):
// a ViT whose normalised tokens feed a causal decoder by cross-attention. In training each caption is predicted token after
// token or, with probability masked_pred_prob, all tokens at once: a share of them is replaced by one more id, nothing is
// shifted, and the self-attention sees every token. With probability 0 it is Cap.
//
// Parameters, and big_vision's names for them (a stacked one's first axis counts the blocks):
//   encoder/…                                  encoder/…, as ViT of style big_vision without a head (models/vit/vit.h)
//   pos_embed                                  pos_embedding_decoder
//   decoder/embed/embedding                    decoder/EmbedTargets/embedding
//   decoder/blocks/norm{1,2,3}/{scale,bias}    decoder/EncDecBlock<i>/LayerNorm{1,2,3}
//   decoder/blocks/attn/qkv/kernel             …/SelfAttn/{query,key,value}/kernel, side by side
//   decoder/blocks/attn/proj/kernel            …/SelfAttn/out/kernel
//   decoder/blocks/cross/{q,kv,proj}/kernel    …/CrossAttn/{query,key+value,out}/kernel
//   decoder/blocks/mlp/{fc1,fc2}/{kernel,bias} …/MLP/Dense_{0,1}
//   decoder/norm/{scale,bias}                  decoder/LayerNorm
//   decoder/logits/{kernel,bias}               decoder/LogitsDense

#include <optional>
#include <string>

#include "models/image_text/captioner.h"
#include "models/vit/vit.h"
#include "nn/blocks/decoder_block.h"

namespace tessera::models {

// The defaults are those of big_vision's configs/proj/cappa/pretrain.py.
struct CapPaOptions {
  std::string variant = "B/16";
  std::optional<int64_t> width, depth, heads, mlp_dim, patch, image_size;
  std::string posemb = "learned";
  int64_t decoder_depth = 6, decoder_width = 0, decoder_heads = 0, decoder_mlp_dim = 0;
  bool decoder_bias = false;
  std::optional<int64_t> tokens, vocabulary;
  double masked_pred_prob = 0.75, masking_ratio = 1;
  double dropout = 0, decoder_dropout = 0;
  std::string remat = "auto";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "size and patch of the encoder, as B/16 (see vit); the five below override it");
    field("width", width, "size of an image token");
    field("depth", depth, "number of the encoder's blocks");
    field("heads", heads, "the encoder's attention heads; divides width");
    field("mlp_dim", mlp_dim, "hidden size of the encoder's MLP; 4 x width where that is given and this is not");
    field("patch", patch, "side of a patch in pixels; divides the image size");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("posemb", posemb, "positions of patches and of tokens: learned or sincos2d (fixed)");
    field("decoder_depth", decoder_depth, "number of the decoder's blocks; 0: as the encoder, as for the three below");
    field("decoder_width", decoder_width, "size of a text token");
    field("decoder_heads", decoder_heads, "the decoder's attention heads; divides its width");
    field("decoder_mlp_dim", decoder_mlp_dim, "hidden size of the decoder's MLP");
    field("decoder_bias", decoder_bias, "bias of the decoder's MLP and of its blocks' layer norms");
    field("tokens", tokens, "length of a caption; from the data when not given");
    field("vocabulary", vocabulary, "number of token ids; from the data when not given");
    field("masked_pred_prob", masked_pred_prob, "share of captions that training predicts all at once; 0: Cap");
    field("masking_ratio", masking_ratio, "share of the tokens of such a caption that are hidden");
    field("dropout", dropout, "in the encoder: of the embedded tokens, of attention outputs and in the MLP");
    field("decoder_dropout", decoder_dropout, "in the decoder: of attention probabilities and outputs and in the MLP");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the products) or "
                     "save(names…) of qkv, attention, proj, fc1, fc2"));
  }
};

// CapPaOptions with every choice made and checked.
struct CapPaConfig {
  InputShape input;
  ViTConfig encoder;                                     // without pool and head
  int64_t depth = 0, width = 0, heads = 0, mlp_dim = 0;  // the decoder's
  bool bias = false;
  double masked_pred_prob = 0, masking_ratio = 0;
  double dropout = 0;  // in the decoder
  int64_t hidden() const { return static_cast<int64_t>(masking_ratio * static_cast<double>(input.tokens)); }
  // The id that hides a token, and so one more row of the embedding where there is one.
  int64_t embeddings() const { return input.vocabulary + (masked_pred_prob > 0 ? 1 : 0); }
};

// Throws usage Errors as resolve() of ViTOptions does.
CapPaConfig resolve(const CapPaOptions& options, const InputShape& data = {}, const FailOption& fail = {});

class CapPa : public Captioner {
 public:
  explicit CapPa(CapPaConfig config) : config_(std::move(config)), encoder_(config_.encoder) {}

  // The mean of the image's tokens.
  ir::Value features(const nn::Scope& scope, ir::Value images) const override;
  ir::Value encode(const nn::Scope& scope, ir::Value images) const override;
  ir::Value decode(const nn::Scope& scope, ir::Value encoded, ir::Value captions,
                   const std::optional<ParallelPrediction>& parallel = {}) const override;
  DecoderCache begin(const nn::Scope& scope, ir::Value encoded, int64_t rows) const override;
  ir::Value next(const nn::Scope& scope, DecoderCache& cache, ir::Value previous, ir::Value position) const override;
  std::optional<ParallelPrediction> draw_parallel(const nn::Scope& scope, int64_t rows) const override;
  bool has_parallel() const override { return config_.masked_pred_prob > 0; }
  const InputShape& input() const override { return config_.input; }
  const Family& family() const override;
  TimmMap timm_map() const override;
  std::string describe() const override;
  const CapPaConfig& config() const { return config_; }
  const CapPaConfig* cappa_config() const override { return &config_; }

 private:
  // captions -> what the decoder reads [rows * tokens, width], and the mask of its self-attention.
  ir::Value embed(const nn::Scope& scope, ir::Value captions, const std::optional<ParallelPrediction>& parallel) const;
  // Ids -> their embeddings, and what is added to those of a caption: [1, tokens, width].
  ir::Value embed_ids(const nn::Scope& scope, ir::Value ids) const;
  ir::Value positions(const nn::Scope& scope) const;
  // What leaves the blocks, [rows, width] -> [rows, vocabulary].
  ir::Value head(const nn::Scope& decoder, ir::Value x) const;
  ir::Value blocks(const nn::Scope& scope, ir::Value x, int64_t rows, ir::Value encoded, ir::Value mask) const;
  nn::DecoderBlockOptions block_options() const;

  CapPaConfig config_;
  ViT encoder_;
};

}  // namespace tessera::models
