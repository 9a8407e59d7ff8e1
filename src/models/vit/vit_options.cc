#include "models/vit/vit_options.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "nn/blocks/encoder_blocks.h"

namespace tessera::models {
namespace {

constexpr ViTSize kSizes[] = {
    {"mu", 32, 1, 128, 2},     {"Ti", 192, 12, 768, 3},       {"S", 384, 12, 1536, 6},        {"M", 512, 12, 2048, 8},
    {"B", 768, 12, 3072, 12},  {"L", 1024, 24, 4096, 16},     {"So400m", 1152, 27, 4304, 16}, {"H", 1280, 32, 5120, 16},
    {"g", 1408, 40, 6144, 16}, {"g-opt", 1536, 40, 6144, 16}, {"G", 1664, 48, 8192, 16},      {"e", 1792, 56, 15360, 16},
};

// Turns the options into a config, one group at a time.
class ViTResolver : private OptionChecks {
 public:
  ViTResolver(const ViTOptions& options, const InputShape& data, const FailOption& fail) : OptionChecks(fail), o_(options) {
    c_.input = data;
  }

  ViTConfig run() {
    static const std::vector<std::string> kStyles = {"timm", "big_vision"};
    big_vision_ = choose("style", o_.style, kStyles) == 1;
    sizes();
    input();
    layout();
    values();
    distillation();
    c_.remat = remat(o_.remat, nn::block_products());
    return c_;
  }

 private:
  void variant() {
    const std::string& text = *o_.variant;
    const size_t slash = text.find('/');
    const std::string name = text.substr(0, slash);
    std::vector<std::string> names;
    for (const ViTSize& v : kSizes) {
      names.push_back(v.name);
      if (name != v.name) continue;
      c_.width = v.width, c_.depth = v.depth, c_.mlp_dim = v.mlp_dim, c_.heads = v.heads;
    }
    if (c_.width == 0) {
      fail("variant", fmt::format("`{}` is of no known size", text), suggest_name(name, names));
    }
    if (slash == std::string::npos) return;
    const std::optional<double> patch = parse_number(text.substr(slash + 1));
    if (!patch || *patch < 1 || *patch != static_cast<double>(static_cast<int64_t>(*patch))) {
      fail("variant", fmt::format("`{}` must end in the patch size", text), "write it as S/16");
    }
    c_.patch = static_cast<int64_t>(*patch);
  }

  void sizes() {
    if (o_.variant) variant();
    const std::pair<const char*, std::pair<const std::optional<int64_t>*, int64_t*>> fields[] = {
        {"width", {&o_.width, &c_.width}},
        {"depth", {&o_.depth, &c_.depth}},
        {"heads", {&o_.heads, &c_.heads}},
        {"patch", {&o_.patch, &c_.patch}}};
    if (o_.width && !o_.mlp_dim) c_.mlp_dim = 4 * positive("width", *o_.width);
    if (o_.mlp_dim) c_.mlp_dim = *o_.mlp_dim;
    if (o_.depth) blocks("depth", *o_.depth);
    for (const auto& [key, field] : fields) {
      if (*field.first)
        *field.second = **field.first;
      else if (*field.second == 0)
        fail(key, "is not given", "give variant (such as \"S/16\"), or width, depth, heads and patch");
      positive(key, *field.second);
    }
    positive("mlp_dim", c_.mlp_dim);
    check_heads("heads", c_.heads, c_.width);
  }

  void input() {
    c_.input = OptionChecks::input(c_.input, o_.image_size, o_.classes);
    check_patch(c_.input, c_.patch);
  }

  void layout() {
    const size_t pool = choose("pool", o_.pool.value_or(big_vision_ ? "gap" : "tok"), {"gap", "map", "tok", "none"});
    c_.pool = static_cast<Pool>(pool);
    c_.posemb = static_cast<PosEmb>(choose("posemb", o_.posemb.value_or("learned"), {"learned", "sincos2d", "none"}));
    c_.class_token = o_.class_token.value_or(c_.pool == Pool::kTok);
    if (c_.pool == Pool::kTok && !c_.class_token)
      fail("class_token", "is false, and pool \"tok\" reads that token", "use pool \"gap\"");
    c_.reg_tokens = not_negative("reg_tokens", o_.reg_tokens);
    const bool fixed = c_.posemb != PosEmb::kLearned;
    c_.posemb_prefix = o_.posemb_prefix.value_or(!big_vision_ && !fixed);
    if (c_.posemb == PosEmb::kSincos2d) {
      check_sincos2d("posemb", c_.width);
      if (o_.posemb_prefix.value_or(false)) fail("posemb_prefix", "is true, and sincos2d positions are those of patches only");
    }
    const bool after = !big_vision_ && c_.pool == Pool::kGap;
    const std::string norm = o_.final_norm.value_or(after ? "after_pool" : "before_pool");
    c_.final_norm = static_cast<FinalNorm>(choose("final_norm", norm, {"before_pool", "after_pool", "none"}));
    c_.qkv_bias = o_.qkv_bias, c_.proj_bias = o_.proj_bias, c_.qk_norm = o_.qk_norm;
    c_.pre_norm = o_.pre_norm, c_.pool_prefix = o_.pool_prefix;
  }

  void values() {
    c_.norm_epsilon = positive("norm_epsilon", o_.norm_epsilon);
    c_.final_norm_epsilon = positive("final_norm_epsilon", o_.final_norm_epsilon.value_or(o_.norm_epsilon));
    c_.layer_scale = o_.layer_scale;
    c_.gelu = static_cast<nn::Activation>(choose("gelu", o_.gelu.value_or(big_vision_ ? "tanh" : "exact"), {"exact", "tanh"}));
    c_.rep_size = not_negative("rep_size", o_.rep_size);
    c_.init = static_cast<InitScheme>(
        choose("init", o_.init.value_or(big_vision_ ? "big_vision" : "timm"), {"timm", "jax", "big_vision"}));
    const bool timm = c_.init == InitScheme::kTimm;
    c_.head_zeros = choose("head_init", o_.head_init.value_or(timm ? "normal" : "zeros"), {"normal", "zeros"}) == 1;
    c_.head_bias = o_.head_bias;
    c_.dropout = rate("dropout", o_.dropout);
    c_.embed_dropout = rate("embed_dropout", o_.embed_dropout);
    c_.attn_dropout = rate("attn_dropout", o_.attn_dropout);
    c_.head_dropout = rate("head_dropout", o_.head_dropout);
    c_.drop_path = rate("drop_path", o_.drop_path);
  }

  // timm's VisionTransformerDistilled.
  void distillation() {
    c_.distilled = o_.distilled;
    if (!o_.distilled) return;
    const auto need = [&](bool holds, const char* what) {
      if (!holds) fail("distilled", fmt::format("is true, which needs {}", what), "leave out the one or the other");
    };
    need(c_.pool == Pool::kTok, "pool \"tok\"");
    need(c_.final_norm != FinalNorm::kAfterPool, "final_norm \"before_pool\"");
    need(c_.reg_tokens == 0, "reg_tokens = 0");
    need(c_.rep_size == 0, "rep_size = 0");
  }

  const ViTOptions& o_;
  bool big_vision_ = false;
  ViTConfig c_;
};

}  // namespace

std::span<const ViTSize> vit_sizes() { return kSizes; }

ViTConfig resolve(const ViTOptions& options, const InputShape& data, const FailOption& fail) {
  return ViTResolver(options, data, fail).run();
}

}  // namespace tessera::models
