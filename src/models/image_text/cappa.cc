#include "models/image_text/cappa.h"

#include <cmath>

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"
#include "nn/blocks/blocks.h"
#include "nn/dense.h"
#include "nn/embedding.h"
#include "nn/norm/layer_norm.h"

namespace tessera::models {

extern const Family kCapPa;

namespace {

using ir::Value;
using ir::Values;

// [rows] beside [rows, …] of `rank`.
Value beside(Value rows, int64_t rank) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[0] = rows.dim(0);
  return ir::reshape(rows, dims);
}

// One place to the right, a 0 before.
Value shift_right(Value captions) {
  const Value first = ir::zeros({captions.dtype(), {captions.dim(0), 1}});
  return ir::concatenate({first, ir::slice_axis(captions, 1, 0, captions.dim(1) - 1)}, 1);
}

// `count` of each row's `tokens` places, every choice as likely: bool [rows, tokens].
Value draw_places(const nn::Scope& scope, int64_t rows, int64_t tokens, int64_t count) {
  if (count == tokens) return ir::constant(1, DType::kBool, {rows, tokens});
  const Value draws = ir::random_bits(scope.key(), {rows, tokens}, ir::first_row(scope.processes(), rows));
  const Value own = ir::expand_dims(draws, 2), other = ir::expand_dims(draws, 1);
  const TensorType pairs{DType::kI32, {1, tokens, tokens}};
  const Value earlier = ir::compare(ir::Compare::kLt, ir::iota(pairs, 2), ir::iota(pairs, 1));
  const Value tie = ir::logical_and(ir::compare(ir::Compare::kEq, other, own), earlier);
  const Value before = ir::logical_or(ir::compare(ir::Compare::kLt, other, own), tie);
  const Value place = ir::sum(ir::convert(before, DType::kI32), {2});
  return ir::compare(ir::Compare::kLt, place, ir::constant(static_cast<double>(count), DType::kI32));
}

}  // namespace

Value CapPa::encode(const nn::Scope& scope, Value images) const { return encoder_.features(scope / "encoder", images); }

Value CapPa::features(const nn::Scope& scope, Value images) const {
  const Value encoded = encode(scope, images);
  return ir::mean(encoded, {1});
}

std::optional<ParallelPrediction> CapPa::draw_parallel(const nn::Scope& scope, int64_t rows) const {
  if (config_.masked_pred_prob == 0 || !scope.random()) return std::nullopt;
  const Value rows_drawn =
      ir::bernoulli((scope / "parallel").key(), config_.masked_pred_prob, {rows}, ir::first_row(scope.processes(), rows));
  return ParallelPrediction{rows_drawn, draw_places(scope / "hidden", rows, config_.input.tokens, config_.hidden())};
}

Value CapPa::embed(const nn::Scope& scope, Value captions, const std::optional<ParallelPrediction>& parallel) const {
  Value ids = shift_right(captions);
  if (parallel) {
    const Value mask_id = ir::constant(static_cast<double>(config_.input.vocabulary), DType::kI32);
    ids = ir::select(beside(parallel->rows, 2), ir::select(parallel->hidden, mask_id, captions), ids);
  }
  const Value x = embed_ids(scope, ids);
  const Value sum = x + ir::convert(positions(scope), x.dtype());
  return nn::shard(scope, ir::reshape(sum, {-1, config_.width}), {nn::Along::kBatch});
}

Value CapPa::embed_ids(const nn::Scope& scope, Value ids) const {
  return nn::embedding(scope / "decoder" / "embed", ids, config_.embeddings(), config_.width);
}

Value CapPa::positions(const nn::Scope& scope) const {
  const Dims dims = {1, config_.input.tokens, config_.width};
  if (config_.encoder.posemb == PosEmb::kSincos2d) return sincos2d(1, dims[1], dims[2]);
  return scope.param("pos_embed", dims, nn::init::normal(1 / std::sqrt(static_cast<double>(config_.width))));
}

Value CapPa::head(const nn::Scope& decoder, Value x) const {
  x = nn::layer_norm(decoder / "norm", x);
  return nn::dense(decoder / "logits", x, config_.input.vocabulary, {true, nn::init::zeros()});
}

nn::DecoderBlockOptions CapPa::block_options() const {
  nn::AttentionOptions attention;
  attention.heads = config_.heads;
  attention.qkv_bias = attention.proj_bias = false;
  attention.attn_dropout = attention.dropout = config_.dropout;
  attention.qkv_init = attention.proj_init = nn::init::lecun_normal();
  const nn::MlpOptions mlp{config_.mlp_dim,         nn::Activation::kGeluTanh,  config_.bias,
                           config_.dropout,         nn::init::xavier_uniform(), nn::init::normal(1e-6),
                           /*dropout_output=*/false};
  return {attention, attention, mlp, 1e-6, config_.bias};
}

Value CapPa::blocks(const nn::Scope& scope, Value x, int64_t rows, Value encoded, Value mask) const {
  const int64_t batch = encoded.dim(0);
  const Value memory = nn::shard(scope, ir::reshape(encoded, {-1, encoded.dim(2)}), {nn::Along::kBatch});
  return nn::scan_blocks(scope, x, {config_.depth, {}, config_.encoder.remat, false},
                         [&](const nn::Scope& inner, Value carry, Value) {
                           return nn::decoder_block(inner, carry, rows, memory, batch, mask, block_options());
                         });
}

Value CapPa::decode(const nn::Scope& scope, Value encoded, Value captions,
                    const std::optional<ParallelPrediction>& parallel) const {
  const int64_t rows = captions.dim(0), tokens = config_.input.tokens, vocabulary = config_.input.vocabulary;
  TESSERA_CHECK(captions.rank() == 2 && captions.dim(1) == tokens && rows % encoded.dim(0) == 0,
                "captions {} of {} tokens for images {}", to_string(captions.dims()), tokens, to_string(encoded.dims()));
  Value mask = nn::causal_mask(tokens);
  if (parallel) mask = ir::logical_or(beside(parallel->rows, 4), mask);
  const nn::Scope decoder = scope / "decoder";
  Value x = blocks(decoder / "blocks", embed(scope, captions, parallel), rows, encoded, mask);
  x = head(decoder, x);
  return ir::convert(ir::reshape(nn::shard(scope, x, {nn::Along::kBatch}), {rows, tokens, vocabulary}), DType::kF32);
}

DecoderCache CapPa::begin(const nn::Scope& scope, Value encoded, int64_t rows) const {
  const int64_t batch = encoded.dim(0);
  const Value memory = ir::reshape(encoded, {-1, encoded.dim(2)});
  const nn::Scope stacked = scope / "decoder" / "blocks";
  const auto body = [&](const Values&, const Values&) -> ir::ScanResult {
    const nn::Scope cross = stacked.in_scan({}) / "cross";
    const nn::KeysValues of = nn::cross_keys_values(cross, memory, batch, config_.width, block_options().cross);
    return {{}, {of.keys, of.values}};
  };
  const Values images = ir::scan(config_.depth, {}, {}, body).ys;
  const int64_t head = config_.width / config_.heads;
  const Value empty = ir::zeros({images[0].dtype(), {config_.depth, rows, config_.input.tokens, config_.heads, head}});
  return {{images[0], images[1]}, {empty, empty}};
}

Value CapPa::next(const nn::Scope& scope, DecoderCache& cache, Value previous, Value position) const {
  const Value start = ir::compare(ir::Compare::kEq, position, ir::zeros({position.dtype(), {}}));
  Value x = embed_ids(scope, ir::select(start, ir::zeros_like(previous), previous));
  const Value zero = ir::zeros({position.dtype(), {}});
  const Value place = ir::dynamic_slice(positions(scope), {zero, position, zero}, {1, 1, config_.width});
  x = x + ir::convert(ir::reshape(place, {1, config_.width}), x.dtype());
  const nn::Scope decoder = scope / "decoder", stacked = decoder / "blocks";
  const auto body = [&](const Values& carry, const Values& of) -> ir::ScanResult {
    nn::KeysValues own{of[2], of[3]};
    const Value y = nn::decoder_block_step(stacked.in_scan({}), carry[0], own, {of[0], of[1]}, position, block_options());
    return {{y}, {own.keys, own.values}};
  };
  const Values stacks = {cache.images.keys, cache.images.values, cache.captions.keys, cache.captions.values};
  const ir::ScanResult result = ir::scan(config_.depth, {x}, stacks, body);
  cache.captions = {result.ys[0], result.ys[1]};
  return ir::convert(head(decoder, result.carry[0]), DType::kF32);
}

std::string CapPa::describe() const {
  const CapPaConfig& c = config_;
  return fmt::format("{} {} x {} + {} x {}, {} + {} heads, patch {}, {} x {} images, {} tokens of {}",
                     c.masked_pred_prob > 0 ? "CapPa" : "Cap", c.encoder.width, c.encoder.depth, c.width, c.depth,
                     c.encoder.heads, c.heads, c.encoder.patch, c.input.height, c.input.width, c.input.tokens,
                     c.input.vocabulary);
}

namespace {

// Turns the options into a config.
class CapPaResolver : private OptionChecks {
 public:
  CapPaResolver(const CapPaOptions& options, const InputShape& data, const FailOption& fail)
      : OptionChecks(fail), o_(options), data_(data) {}

  CapPaConfig run() {
    encoder();
    text();
    decoder();
    prediction();
    return c_;
  }

 private:
  void encoder() {
    if (o_.posemb == "none") fail("posemb", "can't be `none`", "learned or sincos2d");
    ViTOptions vit;
    vit.style = "big_vision";
    vit.variant = o_.variant;
    vit.width = o_.width, vit.depth = o_.depth, vit.heads = o_.heads, vit.mlp_dim = o_.mlp_dim;
    vit.patch = o_.patch, vit.image_size = o_.image_size;
    vit.posemb = o_.posemb;
    vit.pool = "none";
    vit.classes = 1;  // there is no head
    vit.dropout = vit.embed_dropout = o_.dropout;
    vit.remat = o_.remat;
    c_.encoder = resolve(vit, data_, within(""));
  }

  void text() {
    c_.input = {c_.encoder.input.height, c_.encoder.input.width, c_.encoder.input.channels, data_.classes};
    c_.input.tokens = size_of_text("tokens", o_.tokens, data_.tokens);
    c_.input.vocabulary = size_of_text("vocabulary", o_.vocabulary, data_.vocabulary);
    if (c_.input.vocabulary < 2) fail("vocabulary", fmt::format("must be at least 2, and is {}", c_.input.vocabulary));
  }

  int64_t size_or(const char* key, int64_t value, int64_t of_encoder) const {
    return not_negative(key, value) == 0 ? of_encoder : value;
  }

  void decoder() {
    c_.depth = blocks("decoder_depth", size_or("decoder_depth", o_.decoder_depth, c_.encoder.depth));
    c_.width = size_or("decoder_width", o_.decoder_width, c_.encoder.width);
    c_.heads = size_or("decoder_heads", o_.decoder_heads, c_.encoder.heads);
    c_.mlp_dim = size_or("decoder_mlp_dim", o_.decoder_mlp_dim, c_.encoder.mlp_dim);
    check_heads("decoder_heads", c_.heads, c_.width);
    if (c_.encoder.posemb == PosEmb::kSincos2d) check_sincos2d("posemb", c_.width);
    c_.bias = o_.decoder_bias;
    c_.dropout = rate("decoder_dropout", o_.decoder_dropout);
  }

  void prediction() {
    c_.masked_pred_prob = share("masked_pred_prob", o_.masked_pred_prob);
    c_.masking_ratio = share("masking_ratio", o_.masking_ratio);
  }

  const CapPaOptions& o_;
  const InputShape& data_;
  CapPaConfig c_;
};

}  // namespace

TimmMap CapPa::timm_map() const { return tower_map(*this, "encoder", encoder_); }

CapPaConfig resolve(const CapPaOptions& options, const InputShape& data, const FailOption& fail) {
  return CapPaResolver(options, data, fail).run();
}

const Family kCapPa = {
    .name = "cappa",
    .title = "CapPa and Cap: captioners",
    .make = [](config::Section section, const InputShape& data) -> std::unique_ptr<Model> {
      CapPaOptions options;
      section.bind(options);
      return std::make_unique<CapPa>(resolve(options, data, fail_in(section)));
    },
    .keys = [](const std::string& prefix) { return config::describe<CapPaOptions>({}, prefix); },
    .first_conv = "encoder.patch_embed.proj",
};

const Family& CapPa::family() const { return kCapPa; }

}  // namespace tessera::models
