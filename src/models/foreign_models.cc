#include "models/foreign_models.h"

#include <algorithm>
#include <tuple>

#include "models/cappa.h"
#include "models/foreign_processor.h"
#include "models/timm_args.h"
#include "models/two_tower.h"

namespace tessera::models {
namespace {

struct Demand {
  bool holds;
  const char *option, *value;  // the only one that the library has
};

// `part`: what stands before the options in a recipe, as "image.".
void check(const std::string& library, const std::vector<Demand>& demands, const std::string& part = {}) {
  for (const Demand& demand : demands) {
    if (demand.holds) continue;
    const std::string option = part + demand.option;
    throw usage_error(fmt::format("{} has no such model: it would need {} = {}", library, option, demand.value),
                      "model." + option, part.empty() ? "export with --format timm" : "export with --plain");
  }
}

std::vector<Demand> plain_blocks(const ViTConfig& c) {
  return {{c.reg_tokens == 0, "reg_tokens", "0"},
          {!c.distilled, "distilled", "false"},
          {!c.pre_norm, "pre_norm", "false"},
          {!c.qk_norm, "qk_norm", "false"},
          {!c.layer_scale, "layer_scale", "none"},
          {c.proj_bias, "proj_bias", "true"},
          {c.final_norm == FinalNorm::kBeforePool, "final_norm", "\"before_pool\""},
          {c.final_norm_epsilon == c.norm_epsilon, "final_norm_epsilon", "norm_epsilon"}};
}

void check_hugging_face(const ViTConfig& c) {
  std::vector<Demand> demands = plain_blocks(c);
  demands.insert(demands.end(), {{c.pool == Pool::kTok, "pool", "\"tok\""},
                                 {c.posemb == PosEmb::kLearned, "posemb", "\"learned\""},
                                 {c.posemb_prefix, "posemb_prefix", "true"},
                                 {c.rep_size == 0, "rep_size", "0"}});
  check("Hugging Face's ViT", demands);
}

void check_big_vision(const ViTConfig& c, const std::string& part = {}) {
  const bool token = c.pool == Pool::kTok;
  std::vector<Demand> demands = plain_blocks(c);
  demands.insert(demands.end(), {{c.gelu == nn::Activation::kGeluTanh, "gelu", "\"tanh\""},
                                 {c.norm_epsilon == 1e-6, "norm_epsilon", "1e-6"},
                                 {c.qkv_bias, "qkv_bias", "true"},
                                 {c.class_token == token, "class_token", token ? "true" : "false"},
                                 {!c.class_token || !c.posemb_prefix, "posemb_prefix", "false"},
                                 {c.posemb != PosEmb::kNone, "posemb", "\"learned\""}});
  check("big_vision's ViT", demands, part);
}

const ViT& vit_for_hugging_face(const Model& model) {
  const auto* vit = dynamic_cast<const ViT*>(&model);
  if (vit == nullptr) {
    throw usage_error(fmt::format("of Hugging Face's models only ViT is written, and this is {}", model.describe()), "--format",
                      "export with --format timm");
  }
  check_hugging_face(vit->config());
  return *vit;
}

Heads heads_for_big_vision(const Model& model) {
  if (const auto* captioner = dynamic_cast<const CapPa*>(&model)) {
    return {captioner->config().encoder.heads, captioner->config().heads};
  }
  if (const auto* towers = dynamic_cast<const TwoTower*>(&model)) {
    check_big_vision(towers->config().image, "image.");
    check("big_vision's text tower", {{!towers->config().text.causal, "causal", "false"}}, "text.");
    return {towers->config().image.heads, towers->config().text.heads};
  }
  const auto* vit = dynamic_cast<const ViT*>(&model);
  if (vit == nullptr) {
    throw usage_error(
        fmt::format("of big_vision's models ViT, CapPa and two towers are written, and this is {}", model.describe()),
        "--format", "export with --format timm");
  }
  check_big_vision(vit->config());
  return {vit->config().heads, 0};
}

// Hugging Face's ViTConfig, with its defaults.
ViTOptions vit_options_of(const Json& root, const std::string& where) {
  ViTOptions o;
  o.width = get<int64_t>(root, "hidden_size", 768, where);
  o.depth = get<int64_t>(root, "num_hidden_layers", 12, where);
  o.heads = get<int64_t>(root, "num_attention_heads", 12, where);
  o.mlp_dim = get<int64_t>(root, "intermediate_size", 3072, where);
  o.patch = get<int64_t>(root, "patch_size", 16, where);
  o.norm_epsilon = get(root, "layer_norm_eps", 1e-12, where);
  o.qkv_bias = get(root, "qkv_bias", true, where);
  const auto activation = get<std::string>(root, "hidden_act", "gelu", where);
  o.gelu = activation == "gelu" ? "exact" : "tanh";
  const std::string_view kTanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
  if (activation != "gelu" && std::ranges::find(kTanh, activation) == std::end(kTanh)) {
    bad_entry("hidden_act", activation, "gelu or gelu_pytorch_tanh", where);
  }
  return o;
}

ModelConfig parse_hugging_face(const Json& root, std::string_view preprocessor, const std::string& where) {
  const auto type = get<std::string>(root, "model_type", "", where);
  if (type != "vit") {
    throw data_error(fmt::format("`model_type` is \"{}\", and of Hugging Face's models only ViT (\"vit\") is read", type),
                     where, "timm's directory of the model may be read: `tessera models` lists what there is");
  }
  InputShape input;
  std::tie(input.height, input.width) = get_image_size(root, "image_size", {224, 224}, where);
  input.channels = get<int64_t>(root, "num_channels", 3, where);
  const Json labels = root.value("id2label", Json());
  input.classes = labels.is_object() ? std::ssize(labels) : get<int64_t>(root, "num_labels", 2, where);
  ModelConfig config;
  config.architecture = "ViTForImageClassification";
  config.model = std::make_unique<ViT>(resolve(vit_options_of(root, where), input));
  config.label_names = class_names(labels, "id2label", input.classes, where);
  if (!preprocessor.empty()) config.preprocessing = parse_processor(preprocessor, "preprocessor_config.json of " + where);
  return config;
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, std::string_view preprocessor, const std::string& where) {
  const Json root = parse_object(json, where);
  try {
    return root.contains("model_type") ? parse_hugging_face(root, preprocessor, where) : parse_timm_config(json, where);
  } catch (const Error& error) {
    // What the checks of options say names the option alone.
    if (error.code() != Exit::kUsage) throw;
    throw data_error(error.message(), where, error.help());
  }
}

Arrays export_foreign(const Model& model, Naming naming, const ArrayViews& parameters) {
  TESSERA_CHECK(naming != Naming::kTimm);
  Heads heads;
  if (naming == Naming::kBigVision) heads = heads_for_big_vision(model);
  if (naming == Naming::kHuggingFace) vit_for_hugging_face(model);
  TimmMap map = model.timm_map();
  map.fixed_positions.clear();  // big_vision computes them
  return from_timm_naming(export_timm(map, parameters), naming, heads);
}

std::string hugging_face_config(const Model& model, const std::vector<std::string>& label_names) {
  const ViTConfig& c = vit_for_hugging_face(model).config();
  Json root;
  root["architectures"] = {"ViTForImageClassification"};
  root["model_type"] = "vit";
  root["hidden_size"] = c.width;
  root["num_hidden_layers"] = c.depth;
  root["num_attention_heads"] = c.heads;
  root["intermediate_size"] = c.mlp_dim;
  root["hidden_act"] = c.gelu == nn::Activation::kGelu ? "gelu" : "gelu_pytorch_tanh";
  root["hidden_dropout_prob"] = 0.0;
  root["attention_probs_dropout_prob"] = 0.0;
  root["layer_norm_eps"] = c.norm_epsilon;
  root["qkv_bias"] = c.qkv_bias;
  root["image_size"] = c.input.height == c.input.width ? Json(c.input.height) : Json{c.input.height, c.input.width};
  root["patch_size"] = c.patch;
  root["num_channels"] = c.input.channels;
  root["id2label"] = Json::object();
  root["label2id"] = Json::object();
  for (int64_t i = 0; i < c.input.classes; ++i) {
    const std::string label = label_names.empty() ? fmt::format("LABEL_{}", i) : label_names[static_cast<size_t>(i)];
    root["id2label"][std::to_string(i)] = label;
    root["label2id"][label] = i;
  }
  return root.dump(2) + "\n";
}

}  // namespace tessera::models
