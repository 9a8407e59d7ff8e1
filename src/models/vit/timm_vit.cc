// timm's VisionTransformer: its arguments in our options and back, and the models registered with it.

#include <cmath>

#include "models/timm_args.h"
#include "models/vit/vit.h"

namespace tessera::models {

extern const Family kViT;

namespace {

constexpr TimmArchitecture kViTArchitectures[] = {
#define TIMM_VIT(name, image_size, args) {name, image_size, args},
#include "models/vit/timm_vits.def"
#undef TIMM_VIT
};

const std::vector<TimmWord> kPools = {{"avg", "gap"}, {"map", "map"}, {"token", "tok"}, {"", "none"}};
const std::vector<TimmWord> kPositions = {{"learn", "learned"}, {"none", "none"}, {"", "none"}};
const std::vector<TimmWord> kActivations = {{"gelu", "exact"}, {"gelu_tanh", "tanh"}};

std::string final_norm_of(TimmArgs& args, const std::string& pool) {
  const bool after_pool = args.get("fc_norm", pool == "gap");
  if (!args.get("final_norm", true)) return "none";
  return after_pool ? "after_pool" : "before_pool";
}

}  // namespace

ViTOptions vit_options_of_timm(std::string_view json, const std::string& where) {
  TimmArgs args(json, where);
  ViTOptions o;
  o.width = args.get<int64_t>("embed_dim", 768);
  o.depth = args.get<int64_t>("depth", 12);
  o.heads = args.get<int64_t>("num_heads", 12);
  o.patch = args.get<int64_t>("patch_size", 16);
  o.mlp_dim = timm_hidden(*o.width, args.get("mlp_ratio", 4.0));
  o.pool = args.word("global_pool", "token", kPools);
  o.posemb = args.word("pos_embed", "learn", kPositions);
  o.gelu = args.word("act_layer", "gelu", kActivations);
  o.class_token = args.get("class_token", true);
  o.posemb_prefix = !args.get("no_embed_class", false);
  o.reg_tokens = args.get<int64_t>("reg_tokens", 0);
  o.distilled = args.get("distilled", false);  // a class there
  o.qkv_bias = args.get("qkv_bias", true);
  o.proj_bias = args.get("proj_bias", true);
  o.qk_norm = args.get("qk_norm", false);
  o.pre_norm = args.get("pre_norm", false);
  o.pool_prefix = args.get("pool_include_prefix", false);
  o.norm_epsilon = args.get("norm_eps", 1e-6);
  o.final_norm = final_norm_of(args, *o.pool);
  // timm takes 0 for "none", as it does null.
  if (const double scale = args.get("init_values", 0.0); scale != 0) o.layer_scale = scale;
  args.finish();
  return o;
}

std::string ViT::timm_args() const {
  const ViTConfig& c = config_;
  if (c.rep_size > 0) {
    throw usage_error("timm's VisionTransformer has no layer like `rep_size`", "model.rep_size",
                      "train with rep_size = 0 to export");
  }
  if (c.final_norm_epsilon != c.norm_epsilon) {
    throw usage_error("timm has no ViT whose final layer norm has an epsilon of its own", "model.final_norm_epsilon");
  }
  if (c.distilled && !c.posemb_prefix) {
    throw usage_error("timm's distilled ViTs have positions for their tokens too", "model.posemb_prefix");
  }
  static const char* const kPoolWords[] = {"avg", "map", "token", ""};
  Json args;
  args["patch_size"] = c.patch;
  args["embed_dim"] = c.width;
  args["depth"] = c.depth;
  args["num_heads"] = c.heads;
  args["mlp_ratio"] = timm_ratio(c.width, c.mlp_dim);
  args["global_pool"] = kPoolWords[static_cast<size_t>(c.pool)];
  args["class_token"] = c.class_token;
  args["pos_embed"] = c.posemb == PosEmb::kNone ? "none" : "learn";
  args["no_embed_class"] = !c.posemb_prefix;
  args["reg_tokens"] = c.reg_tokens;
  args["distilled"] = c.distilled;
  args["qkv_bias"] = c.qkv_bias;
  args["proj_bias"] = c.proj_bias;
  args["qk_norm"] = c.qk_norm;
  args["pre_norm"] = c.pre_norm;
  args["pool_include_prefix"] = c.pool_prefix;
  args["final_norm"] = c.final_norm != FinalNorm::kNone;
  args["fc_norm"] = c.final_norm == FinalNorm::kAfterPool;
  args["act_layer"] = c.gelu == nn::Activation::kGelu ? "gelu" : "gelu_tanh";
  args["init_values"] = c.layer_scale.value_or(0);
  args["norm_eps"] = c.norm_epsilon;
  return args.dump();
}

namespace {

// A variant with an underscore is a name of timm's.
bool is_timms(config::Section& section) {
  return section.has("variant") && section.text("variant", "").find('_') != std::string::npos;
}

std::unique_ptr<Model> make_vit(config::Section section, const InputShape& data) {
  const bool timms = is_timms(section);
  ViTOptions options = timms ? vit_options_of_timm(variant_args(section, kViT), "variant") : ViTOptions();
  section.bind(options);
  if (timms) options.variant.reset();
  return std::make_unique<ViT>(resolve(options, data, fail_in(section)));
}

std::unique_ptr<Classifier> vit_from_timm(std::string_view args, const InputShape& input, const std::string& where) {
  return std::make_unique<ViT>(resolve(vit_options_of_timm(args, where), input));
}

}  // namespace

const Family kViT = {
    .name = "vit",
    .title = "Vision Transformer (timm's, DeiT and DeiT III, SigLIP, CLIP, DINOv2; big_vision's)",
    .make = make_vit,
    .keys = [](const std::string& prefix) { return config::describe<ViTOptions>({}, prefix); },
    .from_timm = vit_from_timm,
    .keys_from_timm = [](std::string_view args,
                         const std::string& where) { return config::changed_keys(vit_options_of_timm(args, where)); },
    .architectures = kViTArchitectures,
    .others =
        {
            {"mu/16", R"(style = "big_vision", variant = "mu/16")"},
            {"Ti/16", R"(style = "big_vision", variant = "Ti/16")"},
            {"S/32", R"(style = "big_vision", variant = "S/32")"},
            {"S/16", R"(style = "big_vision", variant = "S/16")"},
            {"M/16", R"(style = "big_vision", variant = "M/16")"},
            {"B/32", R"(style = "big_vision", variant = "B/32")"},
            {"B/16", R"(style = "big_vision", variant = "B/16")"},
            {"L/16", R"(style = "big_vision", variant = "L/16")"},
            {"So400m/14", R"(style = "big_vision", variant = "So400m/14")"},
            {"H/14", R"(style = "big_vision", variant = "H/14")"},
            {"g/14", R"(style = "big_vision", variant = "g/14")"},
            {"g-opt/16", R"(style = "big_vision", variant = "g-opt/16")"},
            {"G/14", R"(style = "big_vision", variant = "G/14")"},
            {"e/14", R"(style = "big_vision", variant = "e/14")"},
        },
    // No argument says the epsilon of the norms (CLIP's architectures have 1e-5), nor the class.
    .plain = {"vit_base_patch16_224", "vit_base_patch16_clip_224", "deit_base_distilled_patch16_224"},
    .fixed = {"norm_eps", "distilled"},
    .takes_image_size = true,
    .first_conv = "patch_embed.proj",
    .classifier = "head",
};

const Family& ViT::family() const { return kViT; }

}  // namespace tessera::models
