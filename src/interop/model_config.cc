#include "interop/model_config.h"

#include <algorithm>
#include <tuple>

#include "interop/image_processor.h"
#include "interop/timm_import.h"
#include "models/image_text/cappa.h"
#include "models/image_text/two_tower.h"
#include "models/timm_args.h"

namespace tessera::interop {
namespace {

struct Demand {
  bool holds;
  const char *option, *value;  // the only one that the library has
};

// `part`: the prefix of the options in a recipe, as "image.".
void check(const std::string& library, const std::vector<Demand>& demands, const std::string& part = {}) {
  for (const Demand& demand : demands) {
    if (demand.holds) continue;
    const std::string option = part + demand.option;
    throw usage_error(fmt::format("{} has no such model: it would need {} = {}", library, option, demand.value),
                      "model." + option, part.empty() ? "export with --format timm" : "export with --plain");
  }
}

std::vector<Demand> plain_blocks(const models::ViTConfig& c) {
  return {{c.reg_tokens == 0, "reg_tokens", "0"},
          {!c.distilled, "distilled", "false"},
          {!c.pre_norm, "pre_norm", "false"},
          {!c.qk_norm, "qk_norm", "false"},
          {!c.layer_scale, "layer_scale", "none"},
          {c.proj_bias, "proj_bias", "true"},
          {c.final_norm == models::FinalNorm::kBeforePool, "final_norm", "\"before_pool\""},
          {c.final_norm_epsilon == c.norm_epsilon, "final_norm_epsilon", "norm_epsilon"}};
}

void check_hugging_face(const models::ViTConfig& c) {
  std::vector<Demand> demands = plain_blocks(c);
  demands.insert(demands.end(), {{c.pool == models::Pool::kTok, "pool", "\"tok\""},
                                 {c.posemb == models::PosEmb::kLearned, "posemb", "\"learned\""},
                                 {c.posemb_prefix, "posemb_prefix", "true"},
                                 {c.rep_size == 0, "rep_size", "0"}});
  check("Hugging Face's ViT", demands);
}

void check_big_vision(const models::ViTConfig& c, const std::string& part = {}) {
  const bool token = c.pool == models::Pool::kTok;
  std::vector<Demand> demands = plain_blocks(c);
  demands.insert(demands.end(), {{c.gelu == nn::Activation::kGeluTanh, "gelu", "\"tanh\""},
                                 {c.norm_epsilon == 1e-6, "norm_epsilon", "1e-6"},
                                 {c.qkv_bias, "qkv_bias", "true"},
                                 {c.class_token == token, "class_token", token ? "true" : "false"},
                                 {!c.class_token || !c.posemb_prefix, "posemb_prefix", "false"},
                                 {c.posemb != models::PosEmb::kNone, "posemb", "\"learned\""}});
  check("big_vision's ViT", demands, part);
}

const models::ViTConfig& vit_for_hugging_face(const models::Model& model) {
  const models::ViTConfig* vit = model.vit_config();
  if (vit == nullptr) {
    throw usage_error(fmt::format("of Hugging Face's models only ViT is written, and this is {}", model.describe()), "--format",
                      "export with --format timm");
  }
  check_hugging_face(*vit);
  return *vit;
}

Heads heads_for_big_vision(const models::Model& model) {
  if (const models::CapPaConfig* captioner = model.cappa_config()) return {captioner->encoder.heads, captioner->heads};
  if (const models::TwoTowerConfig* towers = model.two_tower_config()) {
    check_big_vision(towers->image, "image.");
    check("big_vision's text tower", {{!towers->text.causal, "causal", "false"}}, "text.");
    return {towers->image.heads, towers->text.heads};
  }
  const models::ViTConfig* vit = model.vit_config();
  if (vit == nullptr) {
    throw usage_error(
        fmt::format("of big_vision's models ViT, CapPa and two towers are written, and this is {}", model.describe()),
        "--format", "export with --format timm");
  }
  check_big_vision(*vit);
  return {vit->heads, 0};
}

// Hugging Face's ViTConfig, with its defaults.
models::ViTOptions vit_options_of(const models::Json& root, const std::string& where) {
  models::ViTOptions o;
  o.width = models::get<int64_t>(root, "hidden_size", 768, where);
  o.depth = models::get<int64_t>(root, "num_hidden_layers", 12, where);
  o.heads = models::get<int64_t>(root, "num_attention_heads", 12, where);
  o.mlp_dim = models::get<int64_t>(root, "intermediate_size", 3072, where);
  o.patch = models::get<int64_t>(root, "patch_size", 16, where);
  o.norm_epsilon = models::get(root, "layer_norm_eps", 1e-12, where);
  o.qkv_bias = models::get(root, "qkv_bias", true, where);
  const auto activation = models::get<std::string>(root, "hidden_act", "gelu", where);
  o.gelu = activation == "gelu" ? "exact" : "tanh";
  const std::string_view kTanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
  if (activation != "gelu" && std::ranges::find(kTanh, activation) == std::end(kTanh)) {
    models::bad_entry("hidden_act", activation, "gelu or gelu_pytorch_tanh", where);
  }
  return o;
}

ModelConfig parse_hugging_face(const models::Json& root, std::string_view preprocessor, const std::string& where) {
  const auto type = models::get<std::string>(root, "model_type", "", where);
  if (type != "vit") {
    throw data_error(fmt::format("`model_type` is \"{}\", and of Hugging Face's models only ViT (\"vit\") is read", type),
                     where, "timm's directory of the model may be read: `tessera models` lists what there is");
  }
  models::InputShape input;
  std::tie(input.height, input.width) = models::get_image_size(root, "image_size", {224, 224}, where);
  input.channels = models::get<int64_t>(root, "num_channels", 3, where);
  const models::Json labels = root.value("id2label", models::Json());
  input.classes = labels.is_object() ? std::ssize(labels) : models::get<int64_t>(root, "num_labels", 2, where);
  ModelConfig config;
  config.architecture = "ViTForImageClassification";
  config.model = std::make_unique<models::ViT>(models::resolve(vit_options_of(root, where), input));
  config.label_names = models::class_names(labels, "id2label", input.classes, where);
  if (!preprocessor.empty()) config.preprocessing = parse_processor(preprocessor, "preprocessor_config.json of " + where);
  return config;
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, std::string_view preprocessor, const std::string& where) {
  const models::Json root = models::parse_object(json, where);
  try {
    ModelConfig config =
        root.contains("model_type") ? parse_hugging_face(root, preprocessor, where) : parse_timm_config(json, where);
    config.multi_label = root.value(kProblemType, models::Json()) == kMultiLabel;
    return config;
  } catch (const Error& error) {
    // What the checks of options say names the option alone.
    if (error.code() != Exit::kUsage) throw;
    throw data_error(error.message(), where, error.help());
  }
}

models::Arrays export_as(const models::Model& model, Naming naming, const models::ArrayViews& parameters) {
  TESSERA_CHECK(naming != Naming::kTimm);
  Heads heads;
  if (naming == Naming::kBigVision) heads = heads_for_big_vision(model);
  if (naming == Naming::kHuggingFace) vit_for_hugging_face(model);
  models::TimmMap map = model.timm_map();
  map.fixed_positions.clear();  // big_vision computes them
  return from_timm_naming(export_timm(map, parameters), naming, heads);
}

std::string hugging_face_config(const models::Model& model, const std::vector<std::string>& label_names, bool multi_label) {
  const models::ViTConfig& c = vit_for_hugging_face(model);
  models::Json root;
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
  root["image_size"] =
      c.input.height == c.input.width ? models::Json(c.input.height) : models::Json{c.input.height, c.input.width};
  root["patch_size"] = c.patch;
  root["num_channels"] = c.input.channels;
  root["id2label"] = models::Json::object();
  root["label2id"] = models::Json::object();
  for (int64_t i = 0; i < c.input.classes; ++i) {
    const std::string label = label_names.empty() ? fmt::format("LABEL_{}", i) : label_names[static_cast<size_t>(i)];
    root["id2label"][std::to_string(i)] = label;
    root["label2id"][label] = i;
  }
  if (multi_label) root[kProblemType] = kMultiLabel;
  return root.dump(2) + "\n";
}

}  // namespace tessera::interop
