// timm's config.json, read and written; the whole directory that timm made (tools/references/models/timm_local_dir.py). Hugging
// Face's beside it.

#include "interop/timm_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "interop/model_config.h"
#include "interop/timm_import.h"
#include "models/timm_names.h"
#include "models/vit/vit.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::models {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kDirectory = testing::source_path("tests/references/timm_local_dir/");

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return (std::ostringstream() << in.rdbuf()).str();
}

const ViTConfig& config_of(const interop::ModelConfig& config) { return dynamic_cast<const ViT&>(*config.model).config(); }

std::string refusal(const std::string& text) {
  try {
    interop::parse_model_config(text, "", "dir/config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "";
}

TEST(TimmConfig, ReadsTimmsOwnDirectory) {
  const interop::ModelConfig config =
      interop::parse_timm_config(read_text(std::string(kDirectory) + "config.json"), "config.json");
  EXPECT_EQ(config.architecture, "vit_tiny_patch16_224");
  EXPECT_EQ(config.model->input(), (InputShape{16, 16, 3, 10}));
  EXPECT_EQ(config.preprocessing->interpolation, "bilinear");
  EXPECT_EQ(config.preprocessing->crop_pct, 0.8889);
  EXPECT_EQ(config.preprocessing->mean, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(config.label_names.size(), 10u);
  EXPECT_EQ(config.label_names[3], "three");
  EXPECT_EQ(config_of(config).width, 24);
  EXPECT_EQ(config_of(config).final_norm, FinalNorm::kAfterPool);

  const auto file = testing::read_references(std::string(kDirectory) + "model.safetensors");
  ArrayViews tensors;
  for (const auto& [name, tensor] : file.tensors) {
    tensors[name] = {{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))};
  }
  const interop::Imported imported = interop::import_timm(config.model->timm_map(), tensors);
  EXPECT_TRUE(imported.notes.empty());
  for (const auto& [name, array] : interop::export_timm(config.model->timm_map(), views(imported.parameters))) {
    EXPECT_EQ(to_floats({array.type, array.data}), testing::formula_parameter(name, array.type.dims)) << name;
  }
}

TEST(TimmConfig, WhatIsWrittenReadsBackAsTheSameModel) {
  std::vector<ViTOptions> cases(9);
  cases[0].variant = "S/16";
  cases[1].variant = "So400m/14", cases[1].style = "big_vision", cases[1].pool = "map";
  cases[2].variant = "B/32", cases[2].pre_norm = true, cases[2].norm_epsilon = 1e-5;
  cases[3].width = 96, cases[3].depth = 6, cases[3].heads = 3, cases[3].patch = 4, cases[3].pool = "gap";
  cases[4].variant = "L/16", cases[4].reg_tokens = 4, cases[4].posemb_prefix = false, cases[4].layer_scale = 1e-5;
  cases[5].variant = "Ti/16", cases[5].qkv_bias = false, cases[5].qk_norm = true, cases[5].proj_bias = false;
  cases[5].final_norm = "none", cases[5].mlp_dim = 555, cases[5].posemb = "none", cases[5].norm_epsilon = 1e-5;
  cases[6].variant = "mu/16", cases[6].style = "big_vision";
  cases[7].variant = "S/16", cases[7].distilled = true;
  cases[8].width = 96, cases[8].depth = 6, cases[8].heads = 3, cases[8].patch = 4, cases[8].distilled = true;
  for (const ViTOptions& options : cases) {
    const ViTConfig c = resolve(options, {224, 224, 3, 10});
    interop::TimmPreprocessing p;
    p.crop_pct = 0.9, p.mean = {0.5, 0.5, 0.5}, p.interpolation = "bilinear";
    const std::string text = interop::write_timm_config(ViT(c), p, std::vector<std::string>(10, "a"));
    const interop::ModelConfig back = interop::parse_timm_config(text, "config.json");
    const ViTConfig& r = config_of(back);
    EXPECT_EQ(std::tie(r.input, r.width, r.depth, r.heads, r.mlp_dim, r.patch, r.pool, r.class_token, r.reg_tokens),
              std::tie(c.input, c.width, c.depth, c.heads, c.mlp_dim, c.patch, c.pool, c.class_token, c.reg_tokens))
        << text;
    EXPECT_EQ(
        std::tie(r.posemb, r.qkv_bias, r.proj_bias, r.qk_norm, r.pre_norm, r.final_norm, r.norm_epsilon, r.layer_scale, r.gelu),
        std::tie(c.posemb, c.qkv_bias, c.proj_bias, c.qk_norm, c.pre_norm, c.final_norm, c.norm_epsilon, c.layer_scale, c.gelu))
        << text;
    EXPECT_EQ(back.preprocessing->crop_pct, 0.9);
    EXPECT_EQ(back.preprocessing->interpolation, "bilinear");
    EXPECT_EQ(back.label_names, std::vector<std::string>(10, "a"));
    EXPECT_TRUE(json::parse(text)["pretrained_cfg"].contains("first_conv"));
  }
}

TEST(TimmConfig, PlainModelsKeepTheirNames) {
  const auto architecture = [](const std::string& variant, const std::string& pool) {
    ViTOptions options;
    options.variant = variant;
    options.pool = pool;
    return json::parse(interop::write_timm_config(ViT(resolve(options, {224, 224, 3, 1000})), {}))["architecture"]
        .get<std::string>();
  };
  EXPECT_EQ(architecture("Ti/16", "tok"), "vit_tiny_patch16_224");
  EXPECT_EQ(architecture("S/32", "tok"), "vit_small_patch32_224");
  EXPECT_EQ(architecture("B/16", "map"), "vit_base_patch16_siglip_224");
  EXPECT_EQ(architecture("H/14", "gap"), "vit_base_patch16_224") << "with arguments";
}

TEST(TimmConfig, MissingEntriesHaveTimmsDefaults) {
  const interop::ModelConfig config =
      interop::parse_timm_config(R"({"architecture": "vit_small_patch14_dinov2", "pretrained_cfg": {}})", "c");
  EXPECT_EQ(config.model->input(), (InputShape{224, 224, 3, 1000}));
  EXPECT_EQ(*config_of(config).layer_scale, 1e-5);
  // An old file: the pretrained_cfg itself.
  const interop::ModelConfig old = interop::parse_timm_config(
      R"({"architecture": "vit_base_patch16_224", "num_classes": 3, "input_size": [3, 32, 48], "crop_pct": 1.0,
          "label_names": {"0": "a", "1": "b", "2": "c"}})",
      "c");
  EXPECT_EQ(old.model->input(), (InputShape{32, 48, 3, 3}));
  EXPECT_EQ(old.preprocessing->crop_pct, 1.0);
  EXPECT_EQ(old.label_names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(TimmConfig, WrongFilesAreRefusedWithTheEntry) {
  EXPECT_THAT(refusal("[1"), HasSubstr("cannot be read as JSON: line 1, column 3 is not JSON\n  --> dir/config.json"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("this is not a JSON object\n  --> dir/config.json"));
  EXPECT_THAT(refusal(R"({"architecture": "resnext50"})"), HasSubstr("which this program does not have"));
  EXPECT_THAT(refusal(R"({"architecture": "vit_small_patch16_225"})"), HasSubstr("did you mean `vit_small_patch16_224`?"));
  const auto with = [](const std::string& args) {
    return R"({"architecture": "vit_small_patch16_224", "pretrained_cfg": {}, "model_args": {)" + args + "}}";
  };
  EXPECT_EQ(refusal(with(R"("drop_rate": 0.1, "scale_attn_norm": false, "img_size": 32)")), "");
  EXPECT_THAT(refusal(with(R"("swiglu": true)")), HasSubstr("`swiglu = true` has no counterpart"));
  EXPECT_THAT(refusal(with(R"("depth": "many")")), HasSubstr("`depth` is \"many\", wanted a whole number"));
  EXPECT_THAT(refusal(with(R"("qkv_bias": 1)")), HasSubstr("wanted true or false"));
  EXPECT_THAT(refusal(with(R"("global_pool": "avgmax")")),
              HasSubstr("`global_pool` is \"avgmax\", which this program does not have"));
  EXPECT_THAT(refusal(with(R"("img_size": [1, 2, 3])")), HasSubstr("wanted a number or [height, width]"));
  EXPECT_THAT(
      refusal(R"({"architecture": "vit_small_patch16_224", "num_classes": 3, "label_names": ["a"], "pretrained_cfg": {}})"),
      HasSubstr("`label_names` has 1 names for 3 classes"));
}

TEST(TimmConfig, ModelsThatTimmLacksAreNotWritten) {
  ViTOptions options;
  options.variant = "S/16";
  options.rep_size = 8;
  EXPECT_THROW(interop::write_timm_config(ViT(resolve(options, {224, 224, 3, 10})), {}), Error);
  options.rep_size = 0;
  options.norm_epsilon = 1e-3;
  EXPECT_THROW(interop::write_timm_config(ViT(resolve(options, {224, 224, 3, 10})), {}), Error);
}

// Entries of other kinds than the library writes, and sizes that no model has.
TEST(TimmConfig, WhatIsNoModelIsNamed) {
  const auto refused = [](const std::string& entries) {
    return refusal(R"({"architecture": "vit_small_patch16_224", )" + entries + "}");
  };
  EXPECT_EQ(refused(R"("num_classes": 3)"), "");
  EXPECT_EQ(refused(R"("num_classes": 3, "pretrained_cfg": [1])"), "");
  EXPECT_THAT(refused(R"("num_classes": 9223372036854775807)"), HasSubstr("wanted a whole number of at most 2097152"));
  EXPECT_THAT(refused(R"("num_classes": 2, "label_names": {"0": "a", "1": ["b"]})"), HasSubstr("`1` is [\"b\"], wanted text"));
  EXPECT_THAT(refused(R"("num_classes": 2, "label_names": {"0": "a", "1": "b", "2": "c"})"),
              HasSubstr("has 3 names for 2 classes"));
  EXPECT_THAT(refused(R"("pretrained_cfg": {"crop_pct": 0})"), HasSubstr("`crop_pct` is 0, wanted a share of the image"));
  EXPECT_THAT(refused(R"("model_args": )" + std::string(5000, '[') + std::string(5000, ']')),
              HasSubstr("nests more than 64 levels deep"));
  // What the model's own checks find.
  EXPECT_THAT(refused(R"("pretrained_cfg": {"input_size": [0, 224, 224]})"),
              AllOf(HasSubstr("`channels` must be at least 1"), HasSubstr("dir/config.json")));
  EXPECT_THAT(refused(R"("model_args": {"mlp_ratio": 1e300})"), HasSubstr("`mlp_dim` must be at least 1, and is 0"));
  EXPECT_THAT(refused(R"("model_args": {"depth": 2000000})"), HasSubstr("`depth` must be at most 10000, and is 2000000"));
  EXPECT_THAT(refused(R"("model_args": {"embed_dim": 2097143})"), HasSubstr("use one of 1, 2097143"));
}

// ---- Hugging Face's

const std::string kViT = R"({"model_type": "vit", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
  "intermediate_size": 24, "image_size": 12, "patch_size": 4, "id2label": {"0": "ant", "1": "bee", "2": "cat"})";

// kViT with other entries in the place of its own, or beside them.
std::string vit_with(const std::string& entries) {
  json config = json::parse(kViT + "}");
  config.update(json::parse("{" + entries + "}"));
  return config.dump();
}

std::string hugging_face_refusal(const std::string& entries, const std::string& processor = "") {
  try {
    interop::parse_model_config(vit_with(entries), processor, "dir/config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    return error.what();
  }
  return "";
}

TEST(HuggingFaceConfig, IsAViTWithItsDefaults) {
  const interop::ModelConfig config = interop::parse_model_config(kViT + "}", "{}", "config.json");
  const ViTConfig& vit = config_of(config);
  EXPECT_EQ(vit.input, (InputShape{12, 12, 3, 3}));
  EXPECT_EQ(vit.mlp_dim, 24);
  EXPECT_EQ(vit.norm_epsilon, 1e-12);
  EXPECT_EQ(vit.gelu, nn::Activation::kGelu);
  EXPECT_EQ(vit.pool, Pool::kTok);
  EXPECT_EQ(config.label_names, (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(config.preprocessing->height, 224);
  EXPECT_EQ(config.preprocessing->interpolation, "bilinear");
  EXPECT_EQ(config.preprocessing->mean, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_FALSE(interop::parse_model_config(kViT + "}", "", "config.json").preprocessing);
  const interop::ModelConfig other = interop::parse_model_config(
      vit_with(R"("hidden_act": "gelu_pytorch_tanh", "image_size": [8, 12], "qkv_bias": false)"),
      R"({"size": {"height": 8, "width": 12}, "resample": 3, "do_normalize": false})", "config.json");
  EXPECT_EQ(config_of(other).gelu, nn::Activation::kGeluTanh);
  EXPECT_FALSE(config_of(other).qkv_bias);
  EXPECT_EQ(config_of(other).input.height, 8);
  EXPECT_EQ(other.preprocessing->width, 12);
  EXPECT_EQ(other.preprocessing->interpolation, "bicubic");
  EXPECT_EQ(other.preprocessing->std, (std::vector<double>{1, 1, 1}));
}

// Both libraries' directories keep that an image may have several labels.
TEST(ModelConfig, SaysThatAnImageMayHaveSeveralLabels) {
  const interop::ModelConfig plain = interop::parse_model_config(vit_with(R"("problem_type": null)"), "{}", "config.json");
  EXPECT_FALSE(plain.multi_label);
  EXPECT_TRUE(interop::parse_model_config(vit_with(R"("problem_type": "multi_label_classification")"), "{}", "config.json")
                  .multi_label);
  ViTOptions options;
  options.width = 24, options.depth = 1, options.heads = 2, options.patch = 4;
  options.pool = "tok";
  const ViT vit(resolve(options, {8, 8, 3, 3}));
  for (const bool several : {false, true}) {
    const std::string timm = interop::write_timm_config(vit, {}, {"ant", "bee", "cat"}, several);
    const std::string hugging_face = interop::hugging_face_config(vit, {}, several);
    for (const std::string& text : {timm, hugging_face}) {
      EXPECT_EQ(interop::parse_model_config(text, "", "config.json").multi_label, several) << text;
      EXPECT_EQ(json::parse(text).contains("problem_type"), several);
    }
  }
}

TEST(HuggingFaceConfig, WhatIsNotReadIsNamed) {
  EXPECT_EQ(hugging_face_refusal(""), "");
  EXPECT_THAT(hugging_face_refusal(R"("model_type": "swin")"), HasSubstr("`model_type` is \"swin\""));
  EXPECT_THAT(hugging_face_refusal(R"("hidden_act": "relu")"), HasSubstr("`hidden_act` is \"relu\", wanted gelu"));
  EXPECT_THAT(hugging_face_refusal("", R"({"do_resize": false})"), HasSubstr("`do_resize` is false, wanted true"));
  EXPECT_THAT(hugging_face_refusal("", R"({"do_center_crop": true, "crop_size": 300})"), HasSubstr("no more than size"));
  EXPECT_THAT(hugging_face_refusal("", R"({"do_center_crop": true, "size": {"height": 256, "width": 240}})"),
              HasSubstr("`crop_size` is null, wanted the same share of both sides of size"));
  EXPECT_THAT(hugging_face_refusal("", R"({"size": {"shortest_edge": 12, "longest_edge": 20}})"),
              HasSubstr("shortest_edge alone"));
  EXPECT_THAT(hugging_face_refusal("", R"({"image_processor_type": "SamImageProcessor"})"),
              HasSubstr("wanted ViTImageProcessor"));
  EXPECT_THAT(hugging_face_refusal("", R"({"image_processor_type": "ConvNextImageProcessor", "crop_pct": 0})"),
              HasSubstr("`crop_pct` is 0, wanted a share"));
  EXPECT_THAT(hugging_face_refusal("", R"({"size": {"shortest_edge": 12}})"), HasSubstr("wanted height and width"));
  EXPECT_THAT(hugging_face_refusal("", R"({"resample": 9})"), HasSubstr("`resample` is 9"));
  EXPECT_THAT(hugging_face_refusal("", R"({"rescale_factor": 1})"), HasSubstr("`rescale_factor` is 1, wanted 1 / 255"));
  EXPECT_THAT(hugging_face_refusal("", R"({"do_resize": false})"), HasSubstr("preprocessor_config.json"));
}

}  // namespace
}  // namespace tessera::models
