// Options of the ViT: what styles and variants come to, and the message for every wrong one.

#include "models/vit/vit_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/vit/vit.h"

namespace tessera::models {
namespace {

using ::testing::HasSubstr;

constexpr InputShape k224{224, 224, 3, 1000};

// The message that making a model of a recipe ends in; "" when it is made.
std::string refusal(const std::string& section, const InputShape& data = k224) {
  try {
    config::Section recipe = config::parse_recipe("[model]\nname = \"vit\"\n" + section, "x.toml");
    make_model(recipe.section("model"), data);
    recipe.finish();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "";
}

const ViTConfig config_of(const std::string& section, const InputShape& data = k224) {
  config::Section recipe = config::parse_recipe("[model]\nname = \"vit\"\n" + section);
  const std::unique_ptr<Model> model = make_model(recipe.section("model"), data);
  return dynamic_cast<ViT&>(*model).config();
}

int64_t parameter_count(const std::string& section) {
  config::Section recipe = config::parse_recipe("[model]\nname = \"vit\"\n" + section);
  int64_t count = 0;
  for (const nn::ParamSpec& spec : parameters(*make_model(recipe.section("model"), k224)))
    count += element_count(spec.type.dims);
  return count;
}

TEST(ViTOptions, VariantsHaveThePublishedSizes) {
  // As timm counts vit_tiny, vit_small, vit_base and vit_large _patch16_224.
  EXPECT_EQ(parameter_count("variant = \"Ti/16\""), 5'717'416);
  EXPECT_EQ(parameter_count("variant = \"S/16\""), 22'050'664);
  EXPECT_EQ(parameter_count("variant = \"B/16\""), 86'567'656);
  EXPECT_EQ(parameter_count("variant = \"L/16\""), 304'326'632);
  const ViTConfig so = config_of("variant = \"So400m/14\"");
  EXPECT_EQ(so.width, 1152);
  EXPECT_EQ(so.depth, 27);
  EXPECT_EQ(so.mlp_dim, 4304);
  EXPECT_EQ(so.heads, 16);
  EXPECT_EQ(so.patch, 14);
}

TEST(ViTOptions, ExplicitSizesOverrideTheVariant) {
  const ViTConfig c = config_of("variant = \"S/16\"\ndepth = 3\npatch = 32\nclasses = 7\nimage_size = 64", {18, 18, 3, 10});
  EXPECT_EQ(c.width, 384);
  EXPECT_EQ(c.mlp_dim, 1536);
  EXPECT_EQ(c.depth, 3);
  EXPECT_EQ(c.patch, 32);
  EXPECT_EQ(c.input, (InputShape{64, 64, 3, 7}));
  EXPECT_EQ(config_of("variant = \"S/16\"\nwidth = 192").mlp_dim, 768);
}

TEST(ViTOptions, StylesSetTheDefaultsOfBothLibraries) {
  const ViTConfig timm = config_of("variant = \"S/16\"");
  EXPECT_EQ(timm.pool, Pool::kTok);
  EXPECT_TRUE(timm.class_token && timm.posemb_prefix && !timm.head_zeros);
  EXPECT_EQ(timm.final_norm, FinalNorm::kBeforePool);
  EXPECT_EQ(timm.gelu, nn::Activation::kGelu);
  EXPECT_EQ(config_of("variant = \"S/16\"\npool = \"gap\"").final_norm, FinalNorm::kAfterPool);
  EXPECT_FALSE(config_of("variant = \"S/16\"\npool = \"gap\"").class_token);

  const ViTConfig big = config_of("variant = \"S/16\"\nstyle = \"big_vision\"");
  EXPECT_EQ(big.pool, Pool::kGap);
  EXPECT_TRUE(!big.class_token && !big.posemb_prefix && big.head_zeros);
  EXPECT_EQ(big.final_norm, FinalNorm::kBeforePool);
  EXPECT_EQ(big.gelu, nn::Activation::kGeluTanh);
  EXPECT_EQ(big.init, InitScheme::kBigVision);
  EXPECT_TRUE(config_of("variant = \"S/16\"\nstyle = \"big_vision\"\npool = \"tok\"").class_token);
}

TEST(ViTOptions, RematNamesAPolicy) {
  using Kind = ir::RematPolicy::Kind;
  const auto policy = [](const std::string& text) { return config_of("variant = \"S/16\"\nremat = \"" + text + "\"").remat; };
  EXPECT_EQ(policy("full").kind, Kind::kSaveNothing);
  EXPECT_EQ(policy("none").kind, Kind::kSaveAll);
  EXPECT_TRUE(policy("auto").automatic);
  EXPECT_EQ(policy("auto").names, policy("dots").names);
  EXPECT_TRUE(config_of("variant = \"S/16\"").remat.automatic) << "when not given";
  EXPECT_FALSE(policy("dots").automatic);
  EXPECT_EQ(policy("dots").names, (std::vector<std::string>{"qkv", "attention", "proj", "fc1", "fc2"}));
  EXPECT_EQ(policy("save(fc1, attention)").names, (std::vector<std::string>{"fc1", "attention"}));
}

TEST(ViTOptions, WrongOnesAreToldWhatToDo) {
  const std::string s16 = "variant = \"S/16\"\n";
  EXPECT_EQ(refusal(s16), "");
  EXPECT_THAT(refusal("variant = \"X/16\""), HasSubstr("`model.variant` `X/16` is of no known size"));
  EXPECT_THAT(refusal("variant = \"So40m/16\""), HasSubstr("did you mean `So400m`?"));
  EXPECT_THAT(refusal("variant = \"S/big\""), HasSubstr("must end in the patch size"));
  EXPECT_THAT(refusal("variant = \"S\""), HasSubstr("`model.patch` is not given"));
  EXPECT_THAT(refusal("width = 96\ndepth = 6\npatch = 4"), HasSubstr("`model.heads` is not given"));
  EXPECT_THAT(refusal(s16 + "heads = 7"), HasSubstr("must divide the width 384, and is 7"));
  EXPECT_THAT(refusal(s16 + "heads = 7"), HasSubstr("use one of 1, 2, 3, 4, 6, 8, 12, 16"));
  EXPECT_THAT(refusal(s16 + "patch = 5", {18, 18, 3, 10}), HasSubstr("`model.patch` must divide the image size 18, and is 5"));
  EXPECT_THAT(refusal(s16 + "patch = 5", {18, 18, 3, 10}),
              HasSubstr("patches that do: 1, 2, 3, 6, 9, 18; image sizes that patch 5 divides: 15, 20, …"));
  EXPECT_THAT(refusal(s16 + "patch = 5", {18, 18, 3, 10}), HasSubstr("--> x.toml:4"));
  EXPECT_THAT(refusal(s16 + "depth = 0"), HasSubstr("`model.depth` must be at least 1, and is 0"));
  EXPECT_THAT(refusal(s16 + "depth = 1000000000"), HasSubstr("`model.depth` must be at most 10000, and is 1000000000"));
  EXPECT_THAT(refusal(s16 + "depth = 1000000000"), HasSubstr("\nhelp: write 10000 or less"));
  EXPECT_THAT(refusal(s16 + "width = 9000000000000000000"), HasSubstr("`model.width` must be at most 16777216"));
  EXPECT_THAT(refusal(s16 + "mlp_dim = 1000000000000"), HasSubstr("`model.mlp_dim` must be at most 16777216"));
  EXPECT_THAT(refusal(s16, {0, 0, 3, 10}), HasSubstr("`model.image_size` is not given"));
  EXPECT_THAT(refusal(s16, {224, 224, 3, 0}), HasSubstr("`model.classes` must be at least 1"));
  EXPECT_THAT(refusal(s16 + "pool = \"gip\""), HasSubstr("can't be `gip`"));
  EXPECT_THAT(refusal(s16 + "pool = \"gip\""), HasSubstr("did you mean `gap`?"));
  EXPECT_THAT(refusal(s16 + "style = \"flax\""), HasSubstr("known: timm, big_vision"));
  EXPECT_THAT(refusal(s16 + "posemb = \"rope\""), HasSubstr("can't be `rope`"));
  EXPECT_THAT(refusal(s16 + "posemb = \"sincos2d\"\nposemb_prefix = true"), HasSubstr("positions are those of patches only"));
  EXPECT_THAT(refusal("width = 6\nheads = 1\ndepth = 1\npatch = 16\nposemb = \"sincos2d\""),
              HasSubstr("needs a width of 4 x n"));
  EXPECT_THAT(refusal(s16 + "class_token = false"), HasSubstr("pool \"tok\" reads that token"));
  EXPECT_EQ(refusal(s16 + "distilled = true"), "");
  EXPECT_THAT(refusal(s16 + "distilled = true\npool = \"gap\""),
              HasSubstr("`model.distilled` is true, which needs pool \"tok\""));
  EXPECT_THAT(refusal(s16 + "distilled = true\nreg_tokens = 4"), HasSubstr("which needs reg_tokens = 0"));
  EXPECT_THAT(refusal(s16 + "distilled = true\nfinal_norm = \"after_pool\""), HasSubstr("which needs final_norm"));
  EXPECT_THAT(refusal(s16 + "distilled = true\nrep_size = 3"), HasSubstr("which needs rep_size = 0"));
  EXPECT_THAT(refusal(s16 + "reg_tokens = -1"), HasSubstr("must be at least 0"));
  EXPECT_THAT(refusal(s16 + "final_norm = \"last\""), HasSubstr("can't be `last`"));
  EXPECT_THAT(refusal(s16 + "gelu = \"fast\""), HasSubstr("can't be `fast`"));
  EXPECT_THAT(refusal(s16 + "init = \"kaiming\""), HasSubstr("can't be `kaiming`"));
  EXPECT_THAT(refusal(s16 + "head_init = \"ones\""), HasSubstr("known: normal, zeros"));
  EXPECT_THAT(refusal(s16 + "rep_size = -3"), HasSubstr("`model.rep_size` must be at least 0"));
  EXPECT_THAT(refusal(s16 + "norm_epsilon = 0"), HasSubstr("must be above 0"));
  for (const char* rate : {"dropout", "embed_dropout", "attn_dropout", "head_dropout", "drop_path"}) {
    EXPECT_THAT(refusal(s16 + rate + " = 1"), HasSubstr("must be in [0, 1), and is 1")) << rate;
    EXPECT_THAT(refusal(s16 + rate + " = -0.1"), HasSubstr("must be in [0, 1)")) << rate;
  }
  EXPECT_THAT(refusal(s16 + "remat = \"half\""), HasSubstr("`model.remat` can't be `half`"));
  EXPECT_THAT(refusal(s16 + "remat = \"save(fc3)\""), HasSubstr("did you mean"));
  EXPECT_THAT(refusal(s16 + "remat = \"none(fc1)\""), HasSubstr("takes no arguments"));
  EXPECT_THAT(refusal(s16 + "dpeth = 3"), HasSubstr("depth"));
}

TEST(ViTOptions, WithoutARecipeErrorsNameTheOption) {
  ViTOptions options;
  options.variant = "S/16";
  options.heads = 5;
  try {
    resolve(options, k224);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "`heads` must divide the width 384, and is 5");
  }
}

TEST(Models, UnknownNamesAreSuggested) {
  config::Section recipe = config::parse_recipe("model = \"vitt\"", "x.toml");
  try {
    make_model(recipe.section("model"), k224);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no model `vitt`"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean `vit`?"));
  }
}

TEST(Models, ListTheirParametersInOrderOfTracing) {
  const std::vector<nn::ParamSpec> specs =
      parameters(ViT(config_of("width = 8\ndepth = 2\nheads = 2\npatch = 4", {8, 8, 3, 10})));
  std::vector<std::string> names;
  for (const nn::ParamSpec& spec : specs) names.push_back(spec.name + (spec.stacked ? "*" : ""));
  EXPECT_EQ(names, (std::vector<std::string>{"patch_embed/kernel",
                                             "patch_embed/bias",
                                             "cls_token",
                                             "pos_embed",
                                             "blocks/norm1/scale*",
                                             "blocks/norm1/bias*",
                                             "blocks/attn/qkv/kernel*",
                                             "blocks/attn/qkv/bias*",
                                             "blocks/attn/proj/kernel*",
                                             "blocks/attn/proj/bias*",
                                             "blocks/norm2/scale*",
                                             "blocks/norm2/bias*",
                                             "blocks/mlp/fc1/kernel*",
                                             "blocks/mlp/fc1/bias*",
                                             "blocks/mlp/fc2/kernel*",
                                             "blocks/mlp/fc2/bias*",
                                             "norm/scale",
                                             "norm/bias",
                                             "head/kernel",
                                             "head/bias"}));
  EXPECT_EQ(specs[0].type.dims, (Dims{48, 8}));
  EXPECT_EQ(specs[3].type.dims, (Dims{1, 5, 8}));
  EXPECT_EQ(specs[6].type.dims, (Dims{2, 8, 24}));
  EXPECT_EQ(specs[6].layer_dims(), (Dims{8, 24}));
}

}  // namespace
}  // namespace tessera::models
