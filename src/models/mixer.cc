// MLP-Mixer (Tolstikhin et al. 2021) of timm and big_vision, and ResMLP (Touvron et al. 2021): blocks that mix tokens, then
// channels, by dense layers.
//
//   mixer   x + mlp_tokens(norm1(x)^T)^T            x + mlp_channels(norm2(x))            layer norms
//   resmlp  x + ls1 linear_tokens(norm1(x)^T)^T     x + ls2 mlp_channels(norm2(x))        norms are alpha x + beta
//
// Parameters, stacked ones first axis = depth, names as timm's:
//   stem/{kernel,bias} blocks/{norm1,norm2}/… blocks/{mlp_tokens,mlp_channels}/{fc1,fc2}/{kernel,bias}
//   blocks/linear_tokens/{kernel,bias} blocks/{ls1,ls2}/gamma norm/… head/{kernel,bias}

#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "models/option_checks.h"
#include "models/timm_args.h"
#include "nn/blocks/blocks.h"
#include "nn/blocks/fused_block.h"
#include "nn/blocks/mlp.h"
#include "nn/dropout.h"
#include "nn/norm/affine.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"
#include "nn/patch_embed.h"

namespace tessera::models {

extern const Family kMixer, kResMLP;

namespace {

struct MixerOptions {
  std::optional<std::string> variant;
  std::optional<int64_t> width, depth, patch, token_dim, channel_dim, image_size, classes;
  double norm_epsilon = 1e-6, layer_scale = 1e-4, head_bias = 0;
  double dropout = 0, head_dropout = 0, drop_path = 0;
  std::string remat = "auto";

  template <class Visitor>
  void visit(Visitor&& field) {
    field("variant", variant, "a name of timm's, as mixer_s16_224 or resmlp_24_224; the options below override it");
    field("width", width, "size of a token");
    field("depth", depth, "number of blocks");
    field("patch", patch, "side of a patch in pixels; divides the image size");
    field("token_dim", token_dim, "mixer: hidden size of the MLP over tokens; width / 2 when not given");
    field("channel_dim", channel_dim, "hidden size of the MLP over channels; 4 x width when not given");
    field("image_size", image_size, "side of the (square) images; from the data when not given");
    field("classes", classes, "number of classes; from the data when not given");
    field("norm_epsilon", norm_epsilon, "mixer: epsilon of the layer norms");
    field("layer_scale", layer_scale, "resmlp: first value of the factor on each branch");
    field("head_bias", head_bias, "first value of the head's bias: -log(classes) suits sigmoid losses");
    field("dropout", dropout, "in the MLPs");
    field("head_dropout", head_dropout, "of what the head sees");
    field("drop_path", drop_path, "stochastic depth, the same in every block");
    field("remat", remat,
          may_change("what the backward pass recomputes of each block: auto (none on GPUs where that fits, else dots), full "
                     "(all), none, dots (all but the products) or "
                     "save(names…) of tokens, fc1, fc2"));
  }
};

MixerOptions mixer_options_of_timm(std::string_view json, const std::string& where) {
  TimmArgs args(json, where);
  MixerOptions o;
  args.text("block_layer", "");
  args.word("global_pool", "avg", {{"avg", "gap"}});
  o.patch = args.get<int64_t>("patch_size", 16);
  o.width = args.get<int64_t>("embed_dim", 512);
  o.depth = args.get<int64_t>("num_blocks", 8);
  o.layer_scale = args.get("init_values", 1e-4);
  const Json ratio = args.raw("mlp_ratio");
  const auto hidden = [&](const Json& r) { return timm_hidden(*o.width, r.get<double>()); };
  if (ratio.is_number()) {
    o.token_dim = o.channel_dim = hidden(ratio);
  } else if (ratio.is_array() && ratio.size() == 2 && ratio[0].is_number() && ratio[1].is_number()) {
    o.token_dim = hidden(ratio[0]), o.channel_dim = hidden(ratio[1]);
  } else if (!ratio.is_null()) {
    bad_entry("mlp_ratio", ratio, "a number or [tokens, channels]", where);
  }
  args.finish();
  return o;
}

// MixerOptions with every choice made and checked.
struct MixerConfig {
  InputShape input;
  bool resmlp = false;
  int64_t width = 0, depth = 0, patch = 0, token_dim = 0, channel_dim = 0;
  double norm_epsilon = 0, layer_scale = 0, head_bias = 0, dropout = 0, head_dropout = 0, drop_path = 0;
  ir::RematPolicy remat;

  int64_t tokens() const { return (input.height / patch) * (input.width / patch); }
};

MixerConfig resolve(const MixerOptions& o, bool resmlp, const InputShape& data, const FailOption& fail) {
  const OptionChecks check(fail);
  const char* help = resmlp ? "give variant (such as \"resmlp_24_224\"), or width, depth and patch"
                            : "give variant (such as \"mixer_s16_224\"), or width, depth and patch";
  MixerConfig c;
  c.resmlp = resmlp;
  c.width = check.required("width", o.width, help);
  c.depth = check.blocks("depth", check.required("depth", o.depth, help));
  c.patch = check.required("patch", o.patch, help);
  c.input = check.input(data, o.image_size, o.classes);
  check.check_patch(c.input, c.patch);
  c.token_dim = check.positive("token_dim", o.token_dim.value_or(std::max<int64_t>(c.width / 2, 1)));
  c.channel_dim = check.positive("channel_dim", o.channel_dim.value_or(4 * c.width));
  c.norm_epsilon = check.positive("norm_epsilon", o.norm_epsilon);
  c.layer_scale = o.layer_scale, c.head_bias = o.head_bias;
  c.dropout = check.rate("dropout", o.dropout);
  c.head_dropout = check.rate("head_dropout", o.head_dropout);
  c.drop_path = check.rate("drop_path", o.drop_path);
  c.remat = check.remat(o.remat, {"tokens", "fc1", "fc2"});
  return c;
}

class Mixer final : public Classifier {
 public:
  explicit Mixer(MixerConfig config) : config_(std::move(config)) {}

  ir::Value features(const nn::Scope& scope, ir::Value images) const override {
    const int64_t batch = images.dim(0), width = config_.width;
    const nn::DenseOptions stem{true, nn::init::lecun_normal(), nn::init::zeros()};
    ir::Value x = nn::patch_embed(scope / "stem", images, width, config_.patch, stem);
    x = nn::shard(scope, x, {nn::Along::kBatch});
    const std::vector<double> rates(static_cast<size_t>(config_.depth), config_.drop_path);
    x = nn::scan_blocks(
        scope / "blocks", x, {config_.depth, rates, config_.remat, false},
        [&](const nn::Scope& inner, ir::Value carry, ir::Value rate) { return block(inner, carry, batch, rate); });
    x = ir::reshape(norm(scope / "norm", x), {batch, config_.tokens(), width});
    return ir::mean(x, {1});
  }

  ir::Value logits(const nn::Scope& scope, ir::Value images) const override {
    const ir::Value x = nn::dropout(scope / "head_drop", features(scope, images), config_.head_dropout);
    const nn::DenseOptions head{true, nn::init::zeros(), nn::init::constant(config_.head_bias)};
    return ir::convert(nn::dense(scope / "head", x, config_.input.classes, head), DType::kF32);
  }

  const InputShape& input() const override { return config_.input; }
  const Family& family() const override { return config_.resmlp ? kResMLP : kMixer; }

  // timm's group_matcher: the stem, each block (the final norm with the last one), the head.
  std::vector<LayerRule> layers() const override { return {{"stem/.*", 0}, {"blocks/.*", 1}, {"norm/.*", config_.depth}}; }

  std::string timm_args() const override {
    Json args;
    args["block_layer"] = config_.resmlp ? "resmlp" : "mixer";
    args["patch_size"] = config_.patch;
    args["embed_dim"] = config_.width;
    args["num_blocks"] = config_.depth;
    const double channels = timm_ratio(config_.width, config_.channel_dim);
    args["mlp_ratio"] = config_.resmlp ? Json(channels) : Json({timm_ratio(config_.width, config_.token_dim), channels});
    if (!config_.resmlp && config_.norm_epsilon != 1e-6) {
      throw usage_error("timm's mixers have layer norms of epsilon 1e-6", "model.norm_epsilon");
    }
    return args.dump();
  }

  TimmMap timm_map() const override {
    TimmMap map;
    map.entries = timm_entries(parameters(*this));
    for (TimmEntry& entry : map.entries) {
      flat_patches(entry, "stem", config_.patch, config_.input.channels);
      if (const size_t at = entry.name.find(".gamma"); at != std::string::npos) entry.name.resize(at);
    }
    return map;
  }

  std::string describe() const override {
    const MixerConfig& c = config_;
    return fmt::format("{} {} x {}, patch {}, {} x {} images, {} classes", c.resmlp ? "ResMLP" : "Mixer", c.width, c.depth,
                       c.patch, c.input.height, c.input.width, c.input.classes);
  }

 private:
  ir::Value norm(const nn::Scope& scope, ir::Value x) const {
    return config_.resmlp ? nn::affine(scope, x) : nn::layer_norm(scope, x, config_.norm_epsilon);
  }

  nn::MlpOptions mlp(int64_t hidden) const {
    const nn::Init kernel = nn::init::xavier_uniform(), bias = nn::init::normal(1e-6);
    return {hidden, nn::Activation::kGelu, true, config_.dropout, kernel, bias};
  }

  // [batch * width, tokens] -> the same.
  ir::Value mix_tokens(const nn::Scope& scope, ir::Value x) const {
    if (!config_.resmlp) return nn::mlp(scope / "mlp_tokens", x, mlp(config_.token_dim));
    const nn::DenseOptions options{true, nn::init::xavier_uniform(), nn::init::zeros()};
    const ir::Value y = nn::dense(scope / "linear_tokens", x, config_.tokens(), options);
    return ir::checkpoint_name(nn::shard(scope, y, {nn::Along::kBatch}), "tokens");
  }

  // [batch * from, to] -> [batch * to, from].
  static ir::Value swap(ir::Value x, int64_t batch) {
    const int64_t from = x.dim(0) / batch, to = x.dim(1);
    return ir::reshape(ir::transpose(ir::reshape(x, {batch, from, to}), {0, 2, 1}), {batch * to, from});
  }

  ir::Value block(const nn::Scope& scope, ir::Value x, int64_t batch, ir::Value drop_rate) const {
    const auto branch = [&](ir::Value y, const char* ls, const char* drop) {
      if (config_.resmlp) y = nn::layer_scale(scope / ls, y, config_.layer_scale);
      return drop_rate ? nn::drop_path(scope / drop, y, batch, drop_rate) : y;
    };
    const ir::Value mixed = mix_tokens(scope, swap(norm(scope / "norm1", x), batch));
    x = x + branch(swap(mixed, batch), "ls1", "drop_path1");
    const nn::Scope norm2 = scope / "norm2", channels = scope / "mlp_channels";
    const nn::MlpOptions options = mlp(config_.channel_dim);
    if (config_.resmlp || !nn::fused_mlp_fits(channels, x, options)) {
      return x + branch(nn::mlp(channels, norm(norm2, x), options), "ls2", "drop_path2");
    }
    const nn::Residual residual = drop_rate ? nn::Residual::kLeft : nn::Residual::kAdded;
    const ir::Value y = nn::fused_mlp_branch(norm2, channels, x, config_.norm_epsilon, options, residual);
    return drop_rate ? x + branch(y, "ls2", "drop_path2") : y;
  }

  MixerConfig config_;
};

template <bool kRes>
std::unique_ptr<Model> make_mixer(config::Section section, const InputShape& data) {
  MixerOptions options;
  if (section.has("variant")) options = mixer_options_of_timm(variant_args(section, kRes ? kResMLP : kMixer), "variant");
  section.bind(options);
  return std::make_unique<Mixer>(resolve(options, kRes, data, fail_in(section)));
}

template <bool kRes>
std::unique_ptr<Classifier> mixer_from_timm(std::string_view args, const InputShape& input, const std::string& where) {
  return std::make_unique<Mixer>(resolve(mixer_options_of_timm(args, where), kRes, input, {}));
}

std::string keys_from_timm(std::string_view args, const std::string& where) {
  return config::changed_keys(mixer_options_of_timm(args, where));
}

std::vector<config::KeyDoc> keys(const std::string& prefix) { return config::describe<MixerOptions>({}, prefix); }

constexpr TimmArchitecture kMixers[] = {
    {"mixer_s32_224", 224, R"({"patch_size": 32, "num_blocks": 8, "embed_dim": 512})"},
    {"mixer_s16_224", 224, R"({"patch_size": 16, "num_blocks": 8, "embed_dim": 512})"},
    {"mixer_b32_224", 224, R"({"patch_size": 32, "num_blocks": 12, "embed_dim": 768})"},
    {"mixer_b16_224", 224, R"({"patch_size": 16, "num_blocks": 12, "embed_dim": 768})"},
    {"mixer_l32_224", 224, R"({"patch_size": 32, "num_blocks": 24, "embed_dim": 1024})"},
    {"mixer_l16_224", 224, R"({"patch_size": 16, "num_blocks": 24, "embed_dim": 1024})"},
};
constexpr TimmArchitecture kResMLPs[] = {
    {"resmlp_12_224", 224, R"({"patch_size": 16, "num_blocks": 12, "embed_dim": 384, "mlp_ratio": 4})"},
    {"resmlp_24_224", 224, R"({"patch_size": 16, "num_blocks": 24, "embed_dim": 384, "mlp_ratio": 4, "init_values": 1e-5})"},
    {"resmlp_36_224", 224, R"({"patch_size": 16, "num_blocks": 36, "embed_dim": 384, "mlp_ratio": 4, "init_values": 1e-6})"},
    {"resmlp_big_24_224", 224, R"({"patch_size": 8, "num_blocks": 24, "embed_dim": 768, "mlp_ratio": 4, "init_values": 1e-6})"},
};

}  // namespace

// timm's entry points of these pass their sizes beside what they are given, and Python refuses the second value: no other sizes
// can be made by name.
const Family kMixer = {
    .name = "mixer",
    .title = "MLP-Mixer",
    .make = make_mixer<false>,
    .keys = keys,
    .from_timm = mixer_from_timm<false>,
    .keys_from_timm = keys_from_timm,
    .architectures = kMixers,
    .plain = {},
    .fixed = {"block_layer", "patch_size", "embed_dim", "num_blocks", "mlp_ratio"},
    .takes_image_size = true,
    .first_conv = "stem.proj",
    .classifier = "head",
};
const Family kResMLP = {
    .name = "resmlp",
    .title = "ResMLP",
    .make = make_mixer<true>,
    .keys = keys,
    .from_timm = mixer_from_timm<true>,
    .keys_from_timm = keys_from_timm,
    .architectures = kResMLPs,
    .plain = {},
    .fixed = {"block_layer", "patch_size", "embed_dim", "num_blocks", "mlp_ratio"},
    .takes_image_size = true,
    .first_conv = "stem.proj",
    .classifier = "head",
};

}  // namespace tessera::models
