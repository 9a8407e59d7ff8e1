#include "models/timm_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace tessera::models {
namespace {

using Json = nlohmann::ordered_json;

struct Architecture {
  const char* name;
  int64_t image_size;
  const char* args;
};
constexpr Architecture kArchitectures[] = {
#define TIMM_VIT(name, image_size, args) {name, image_size, args},
#include "models/timm_vits.def"
#undef TIMM_VIT
};

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

Json parse_object(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw data_error("this is not a JSON object", where);
  return json;
}

[[noreturn]] void bad_entry(const std::string& key, const Json& value, const std::string& wanted, const std::string& where) {
  throw data_error(fmt::format("`{}` is {}, wanted {}", key, value.dump(), wanted), where);
}

// An entry of `object`, or the fallback where there is none or it is null.
template <class T>
T get(const Json& object, const std::string& key, T fallback, const std::string& where) {
  if (!object.contains(key) || object.at(key).is_null()) return fallback;
  const Json& value = object.at(key);
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) bad_entry(key, value, "true or false", where);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (!value.is_number_integer()) bad_entry(key, value, "a whole number", where);
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) bad_entry(key, value, "a number", where);
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    if (!value.is_array()) bad_entry(key, value, "a list of numbers", where);
    for (const Json& item : value) {
      if (!item.is_number()) bad_entry(key, value, "a list of numbers", where);
    }
  } else {
    if (!value.is_string()) bad_entry(key, value, "text", where);
  }
  return value.get<T>();
}

// ---- arguments of VisionTransformer

// timm's word for an option's value, and ours.
struct Word {
  const char *timm, *ours;
};
constexpr Word kPools[] = {{"avg", "gap"}, {"map", "map"}, {"token", "tok"}, {"", "none"}};
constexpr Word kPositions[] = {{"learn", "learned"}, {"none", "none"}, {"", "none"}};
constexpr Word kActivations[] = {{"gelu", "exact"}, {"gelu_tanh", "tanh"}};

template <size_t N>
std::string translate(const Word (&words)[N], const std::string& key, const std::string& value, const std::string& where) {
  std::vector<std::string> known;
  for (const Word& word : words) {
    if (value == word.timm) return word.ours;
    known.push_back(fmt::format("\"{}\"", word.timm));
  }
  throw data_error(fmt::format("`{}` is \"{}\", which this program does not have", key, value), where,
                   "known: " + join(known, ", "));
}

// Arguments that don't change what a trained model of a fixed image size computes.
bool is_free(const std::string& key) {
  for (const char* name : {"img_size", "num_classes", "in_chans", "weight_init", "fix_init", "dynamic_img_size",
                           "dynamic_img_pad", "strict_img_size", "drop_rate", "pos_drop_rate", "patch_drop_rate",
                           "proj_drop_rate", "attn_drop_rate", "drop_path_rate"}) {
    if (key == name) return true;
  }
  return false;
}

void check_known(const Json& args, const std::string& where) {
  static const std::vector<std::string> kKnown = {
      "patch_size", "embed_dim",   "depth",       "num_heads",           "mlp_ratio",      "qkv_bias",   "qk_norm",
      "proj_bias",  "init_values", "class_token", "pos_embed",           "no_embed_class", "reg_tokens", "pre_norm",
      "final_norm", "fc_norm",     "global_pool", "pool_include_prefix", "act_layer",      "norm_eps"};
  for (const auto& [key, value] : args.items()) {
    if (is_free(key) || value.is_null() || std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end()) continue;
    if (value == false) continue;  // an extra that is switched off
    if (key == "norm_layer" && value == "layernorm") continue;
    throw data_error(fmt::format("the model argument `{} = {}` has no counterpart in this program", key, value.dump()), where);
  }
}

std::string final_norm_of(const Json& args, const std::string& pool, const std::string& where) {
  if (!get(args, "final_norm", true, where)) return "none";
  return get(args, "fc_norm", pool == "gap", where) ? "after_pool" : "before_pool";
}

ViTOptions options_of(const Json& args, const std::string& where) {
  check_known(args, where);
  ViTOptions o;
  o.width = get<int64_t>(args, "embed_dim", 768, where);
  o.depth = get<int64_t>(args, "depth", 12, where);
  o.heads = get<int64_t>(args, "num_heads", 12, where);
  o.patch = get<int64_t>(args, "patch_size", 16, where);
  o.mlp_dim = static_cast<int64_t>(static_cast<double>(*o.width) * get(args, "mlp_ratio", 4.0, where));
  o.pool = translate(kPools, "global_pool", get<std::string>(args, "global_pool", "token", where), where);
  o.posemb = translate(kPositions, "pos_embed", get<std::string>(args, "pos_embed", "learn", where), where);
  o.gelu = translate(kActivations, "act_layer", get<std::string>(args, "act_layer", "gelu", where), where);
  o.class_token = get(args, "class_token", true, where);
  o.posemb_prefix = !get(args, "no_embed_class", false, where);
  o.reg_tokens = get<int64_t>(args, "reg_tokens", 0, where);
  o.qkv_bias = get(args, "qkv_bias", true, where);
  o.proj_bias = get(args, "proj_bias", true, where);
  o.qk_norm = get(args, "qk_norm", false, where);
  o.pre_norm = get(args, "pre_norm", false, where);
  o.pool_prefix = get(args, "pool_include_prefix", false, where);
  o.norm_epsilon = get(args, "norm_eps", 1e-6, where);
  o.final_norm = final_norm_of(args, *o.pool, where);
  // timm takes 0 for "none", as it does null.
  if (const double scale = get(args, "init_values", 0.0, where); scale != 0) o.layer_scale = scale;
  return o;
}

// The arguments that give `config`, without image size, classes and channels.
Json args_of(const ViTConfig& c) {
  static const char* const kPoolWords[] = {"avg", "map", "token", ""};
  Json args;
  args["patch_size"] = c.patch;
  args["embed_dim"] = c.width;
  args["depth"] = c.depth;
  args["num_heads"] = c.heads;
  double ratio = static_cast<double>(c.mlp_dim) / static_cast<double>(c.width);
  // timm truncates width * ratio.
  while (static_cast<int64_t>(static_cast<double>(c.width) * ratio) < c.mlp_dim) ratio = std::nextafter(ratio, ratio + 1);
  args["mlp_ratio"] = ratio;
  args["global_pool"] = kPoolWords[static_cast<size_t>(c.pool)];
  args["class_token"] = c.class_token;
  args["pos_embed"] = c.posemb == PosEmb::kNone ? "none" : "learn";
  args["no_embed_class"] = !c.posemb_prefix;
  args["reg_tokens"] = c.reg_tokens;
  args["qkv_bias"] = c.qkv_bias;
  args["proj_bias"] = c.proj_bias;
  args["qk_norm"] = c.qk_norm;
  args["pre_norm"] = c.pre_norm;
  args["pool_include_prefix"] = c.pool_prefix;
  args["final_norm"] = c.final_norm != FinalNorm::kNone;
  args["fc_norm"] = c.final_norm == FinalNorm::kAfterPool;
  args["act_layer"] = c.gelu == nn::Activation::kGelu ? "gelu" : "gelu_tanh";
  args["init_values"] = c.layer_scale ? Json(*c.layer_scale) : Json(nullptr);
  return args;
}

// What an architecture of the table passes, in the same words as args_of.
Json args_of(const Architecture& architecture) {
  const ViTOptions options = options_of(Json::parse(architecture.args), architecture.name);
  InputShape input;
  input.height = input.width = architecture.image_size;
  input.classes = 1;
  return args_of(resolve(options, input));
}

// The arguments of `config` that `architecture` does not have by itself.
Json differences(const Json& wanted, const Architecture& architecture) {
  Json different = Json::object();
  const Json given = args_of(architecture);
  for (const auto& [key, value] : wanted.items()) {
    // timm drops arguments that are null; for init_values, the only one that may be, 0 means the same.
    if (given[key] != value) different[key] = value.is_null() ? Json(0.0) : value;
  }
  return different;
}

double epsilon_of(const Architecture& architecture) { return Json::parse(architecture.args).value("norm_eps", 1e-6); }

// The architecture that is this very model, best of the same image size; else a plain one, and the arguments that differ.
std::pair<const Architecture*, Json> nearest_architecture(const ViTConfig& config) {
  if (config.final_norm_epsilon != config.norm_epsilon) {
    throw usage_error("timm has no ViT whose final layer norm has an epsilon of its own", "model.final_norm_epsilon");
  }
  const Json wanted = args_of(config);
  const Architecture* same = nullptr;
  for (const Architecture& architecture : kArchitectures) {
    if (epsilon_of(architecture) != config.norm_epsilon || !differences(wanted, architecture).empty()) continue;
    if (same == nullptr || architecture.image_size == config.input.height) same = &architecture;
  }
  if (same != nullptr) return {same, Json::object()};
  // No argument says the epsilon of the norms: CLIP's architectures have 1e-5.
  for (const char* name : {"vit_base_patch16_224", "vit_base_patch16_clip_224"}) {
    const Architecture* plain = find_architecture(name);
    if (epsilon_of(*plain) != config.norm_epsilon) continue;
    Json different = differences(wanted, *plain);
    different["fc_norm"] = wanted["fc_norm"];  // timm's default follows the pool
    return {plain, different};
  }
  throw usage_error(fmt::format("timm has no ViT whose layer norms have epsilon {}", config.norm_epsilon), "model.norm_epsilon",
                    "it has 1e-6 and 1e-5");
}

}  // namespace

ViTOptions vit_options_of_timm(std::string_view args, const std::string& where) {
  return options_of(parse_object(args, where), where);
}

// ---- config.json

namespace {

TimmPreprocessing preprocessing_of(const Json& cfg, const std::string& where) {
  TimmPreprocessing p;
  const std::vector<double> size = get(cfg, "input_size", std::vector<double>{3, 224, 224}, where);
  if (size.size() != 3) throw data_error("`input_size` must be [channels, height, width]", where);
  p.channels = static_cast<int64_t>(size[0]), p.height = static_cast<int64_t>(size[1]), p.width = static_cast<int64_t>(size[2]);
  p.mean = get(cfg, "mean", p.mean, where);
  p.std = get(cfg, "std", p.std, where);
  p.crop_pct = get(cfg, "crop_pct", p.crop_pct, where);
  p.crop_mode = get(cfg, "crop_mode", p.crop_mode, where);
  p.interpolation = get(cfg, "interpolation", p.interpolation, where);
  return p;
}

// A list, or an object from index to name.
std::vector<std::string> labels_of(const Json& labels, int64_t classes, const std::string& where) {
  std::vector<std::string> names;
  if (labels.is_array()) {
    for (const Json& name : labels) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  } else if (labels.is_object()) {
    for (int64_t i = 0; i < classes; ++i) names.push_back(labels.value(std::to_string(i), std::to_string(i)));
  }
  if (!names.empty() && static_cast<int64_t>(names.size()) != classes) {
    throw data_error(fmt::format("`label_names` has {} names for {} classes", names.size(), classes), where);
  }
  return names;
}

// [height, width] or one number.
void read_image_size(const Json& args, InputShape& input, const std::string& where) {
  if (!args.contains("img_size") || args["img_size"].is_null()) return;
  const Json& size = args["img_size"];
  if (size.is_number_integer()) {
    input.height = input.width = size.get<int64_t>();
  } else if (size.is_array() && size.size() == 2 && size[0].is_number_integer() && size[1].is_number_integer()) {
    input.height = size[0].get<int64_t>();
    input.width = size[1].get<int64_t>();
  } else {
    bad_entry("img_size", size, "a number or [height, width]", where);
  }
}

}  // namespace

TimmConfig parse_timm_config(std::string_view json, const std::string& where) {
  const Json root = parse_object(json, where);
  TimmConfig config;
  config.architecture = get<std::string>(root, "architecture", "", where);
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture == nullptr) {
    std::vector<std::string> names;
    for (const Architecture& known : kArchitectures) names.push_back(known.name);
    const auto near = nearest_name(config.architecture, names);
    throw data_error(
        fmt::format("`architecture` is \"{}\", which is not a ViT that this program has", config.architecture), where,
        near ? fmt::format("did you mean `{}`?", *near) : "it has timm's VisionTransformer: vit_base_patch16_224, …");
  }
  // An old file is the pretrained_cfg itself.
  const Json cfg = root.contains("pretrained_cfg") ? root["pretrained_cfg"] : root;
  Json args = Json::parse(architecture->args);
  if (root.contains("model_args") && root["model_args"].is_object()) args.update(root["model_args"]);
  config.model = options_of(args, where);
  config.preprocessing = preprocessing_of(cfg, where);

  InputShape& input = config.input;
  input.height = config.preprocessing.height, input.width = config.preprocessing.width;
  read_image_size(args, input, where);
  input.channels = get<int64_t>(args, "in_chans", config.preprocessing.channels, where);
  const int64_t classes = get<int64_t>(root, "num_classes", get<int64_t>(cfg, "num_classes", 1000, where), where);
  input.classes = get<int64_t>(args, "num_classes", classes, where);
  config.model.classes = input.classes;
  if (input.height == input.width) config.model.image_size = input.height;
  const Json& labels = root.contains("label_names") ? root["label_names"] : cfg.value("label_names", Json());
  config.label_names = labels_of(labels, input.classes, where);
  return config;
}

std::string write_timm_config(const ViTConfig& config, const TimmPreprocessing& p,
                              const std::vector<std::string>& label_names) {
  if (config.rep_size > 0) {
    throw usage_error("timm's VisionTransformer has no layer like `rep_size`", "model.rep_size",
                      "train with rep_size = 0 to export");
  }
  const auto [architecture, different] = nearest_architecture(config);
  Json args = different;
  args["img_size"] = {config.input.height, config.input.width};
  args["num_classes"] = config.input.classes;
  args["in_chans"] = config.input.channels;

  Json root;
  root["architecture"] = architecture->name;
  root["num_classes"] = config.input.classes;
  root["num_features"] = config.width;
  if (!label_names.empty()) root["label_names"] = label_names;
  root["model_args"] = args;
  root["pretrained_cfg"] = {{"input_size", {p.channels, p.height, p.width}},
                            {"fixed_input_size", true},
                            {"interpolation", p.interpolation},
                            {"crop_pct", p.crop_pct},
                            {"crop_mode", p.crop_mode},
                            {"mean", p.mean},
                            {"std", p.std},
                            {"num_classes", config.input.classes},
                            {"pool_size", nullptr},
                            {"first_conv", "patch_embed.proj"},
                            {"classifier", "head"}};
  return root.dump(2) + "\n";
}

}  // namespace tessera::models
