// Layers for layer decay, as timm's group_matcher orders them.

#include <gtest/gtest.h>

#include <map>

#include "models/model.h"

namespace tessera::models {
namespace {

TEST(Layers, OfAViTAreTimms) {
  const config::Section recipe = config::parse_recipe(
      "model = {name = \"vit\", width = 32, depth = 3, heads = 2, patch = 4, pre_norm = true, pool = \"tok\"}");
  const auto model = make_model(config::Section(recipe).section("model"), {16, 16, 3, 10});
  const std::vector<nn::ParamSpec> specs = parameters(*model);
  const std::vector<int64_t> layers = parameter_layers(*model, specs);
  std::map<std::string, int64_t> of;
  for (size_t i = 0; i < specs.size(); ++i) of[specs[i].name] = layers[i];
  // timm.models.group_parameters(vit, vit.group_matcher(), reverse=True): stem 0, blocks 1 … 3, norm 3, head 4.
  for (const char* name : {"cls_token", "pos_embed", "patch_embed/kernel", "norm_pre/scale"}) EXPECT_EQ(of.at(name), 0) << name;
  EXPECT_EQ(of.at("blocks/attn/qkv/kernel"), 1);
  EXPECT_EQ(of.at("norm/scale"), 3);
  EXPECT_EQ(of.at("head/kernel"), 4);
}

}  // namespace
}  // namespace tessera::models
