// What weights begin as, by the code of timm (vision_transformer.py: init_weights_vit_timm and init_weights_vit_jax; resnet.py,
// convnext.py and mlp_mixer.py: _init_weights) and of big_vision (models/vit.py).

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/model.h"

namespace tessera::models {
namespace {

namespace init = nn::init;
using Expected = std::map<std::string, nn::Init>;

void expect_initial(const std::string& model, const Expected& expected) {
  SCOPED_TRACE(model);
  config::Section recipe = config::parse_recipe("model = { " + model + " }");
  std::map<std::string, nn::Init> made;
  for (const nn::ParamSpec& spec : parameters(*make_model(recipe.section("model"), {32, 32, 3, 10})))
    made[spec.name] = spec.init;
  for (const auto& [name, want] : expected) {
    if (made.contains(name)) {
      EXPECT_EQ(nn::describe(made[name]), nn::describe(want)) << name;
      continue;
    }
    std::string names;
    for (const auto& [other, value] : made) names += other + " ";
    ADD_FAILURE() << "no parameter " << name << " among " << names;
  }
}

constexpr const char* kViT = "name = \"vit\", width = 16, depth = 2, heads = 2, patch = 4, pool = \"tok\"";

TEST(InitialValues, OfTimmsViT) {
  const double patch = 1 / std::sqrt(4 * 4 * 3.0);
  expect_initial(kViT, {{"patch_embed/kernel", init::uniform(patch)},
                        {"patch_embed/bias", init::uniform(patch)},
                        {"pos_embed", init::normal(0.02)},
                        {"cls_token", init::normal(1e-6)},
                        {"blocks/norm1/scale", init::ones()},
                        {"blocks/norm1/bias", init::zeros()},
                        {"blocks/attn/qkv/kernel", init::normal(0.02)},
                        {"blocks/attn/qkv/bias", init::zeros()},
                        {"blocks/attn/proj/kernel", init::normal(0.02)},
                        {"blocks/mlp/fc1/kernel", init::normal(0.02)},
                        {"blocks/mlp/fc1/bias", init::zeros()},
                        {"blocks/mlp/fc2/kernel", init::normal(0.02)}});
  expect_initial(std::string(kViT) + ", layer_scale = 1e-5", {{"blocks/ls1/gamma", init::constant(1e-5)}});
}

TEST(InitialValues, OfBigVisionsViT) {
  const std::string big_vision =
      "name = \"vit\", width = 16, depth = 2, heads = 2, patch = 4, pool = \"map\", style = \"big_vision\"";
  expect_initial(big_vision, {{"patch_embed/kernel", init::lecun_normal()},
                              {"patch_embed/bias", init::zeros()},
                              {"pos_embed", init::normal(0.25)},
                              {"blocks/attn/qkv/kernel", init::xavier_uniform(3)},
                              {"blocks/attn/proj/kernel", init::xavier_uniform()},
                              {"blocks/mlp/fc1/kernel", init::xavier_uniform()},
                              {"blocks/mlp/fc1/bias", init::normal(1e-6)},
                              {"attn_pool/kv/kernel", init::xavier_uniform(2)},
                              {"attn_pool/latent", init::xavier_uniform()},
                              {"head/kernel", init::zeros()}});
}

TEST(InitialValues, OfResNets) {
  const std::string small = "name = \"resnet\", dims = [8, 8, 8, 8], depths = [2, 2, 2, 2]";
  const auto conv = [](double fan_out) { return init::normal(std::sqrt(2 / fan_out)); };
  expect_initial(small, {{"conv1/kernel", conv(64 * 49)},
                         {"bn1/scale", init::ones()},
                         {"layer1/first/conv1/kernel", conv(8)},
                         {"layer1/first/conv2/kernel", conv(8 * 9)},
                         {"layer1/first/conv3/kernel", conv(32)},
                         {"layer1/first/bn2/scale", init::ones()},
                         {"layer1/first/bn3/scale", init::zeros()},
                         {"layer1/blocks/bn3/scale", init::zeros()},
                         {"layer1/first/downsample/1/scale", init::ones()},
                         {"fc/kernel", init::uniform(1 / std::sqrt(32.0))}});
  expect_initial(small + ", block = \"basic\"",
                 {{"layer1/blocks/bn1/scale", init::ones()}, {"layer1/blocks/bn2/scale", init::zeros()}});
  expect_initial(small + ", zero_init_last = false", {{"layer1/first/bn3/scale", init::ones()}});
}

TEST(InitialValues, OfConvNeXts) {
  expect_initial("name = \"convnext\", dims = [8, 8, 8, 8], depths = [1, 1, 1, 1]",
                 {{"stem/0/kernel", init::normal(0.02)},
                  {"stem/0/bias", init::zeros()},
                  {"stages/0/blocks/conv_dw/kernel", init::normal(0.02)},
                  {"stages/0/blocks/mlp/fc1/kernel", init::normal(0.02)},
                  {"stages/0/blocks/mlp/fc1/bias", init::zeros()},
                  {"stages/0/blocks/gamma", init::constant(1e-6)},
                  {"head/fc/kernel", init::normal(0.02)}});
}

TEST(InitialValues, OfMixers) {
  expect_initial("name = \"mixer\", width = 16, depth = 2, patch = 4",
                 {{"stem/kernel", init::lecun_normal()},
                  {"stem/bias", init::zeros()},
                  {"blocks/mlp_tokens/fc1/kernel", init::xavier_uniform()},
                  {"blocks/mlp_tokens/fc1/bias", init::normal(1e-6)},
                  {"blocks/norm1/scale", init::ones()},
                  {"head/kernel", init::zeros()}});
}

}  // namespace
}  // namespace tessera::models
