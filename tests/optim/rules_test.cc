#include "optim/rules.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::optim {
namespace {

const Params kViT = {
    {"pos_embed", {DType::kF32, {1, 16, 48}}},
    {"cls_token", {DType::kF32, {1, 1, 48}}},
    {"patch_embed/kernel", {DType::kF32, {4, 4, 3, 48}}},
    {"patch_embed/bias", {DType::kF32, {48}}},
    {"blocks/norm1/scale", {DType::kF32, {3, 48}}, true},
    {"blocks/attn/qkv/kernel", {DType::kF32, {3, 48, 144}}, true},
    {"blocks/attn/qkv/bias", {DType::kF32, {3, 144}}, true},
    {"head/kernel", {DType::kF32, {48, 10}}},
    {"head/bias", {DType::kF32, {10}}},
};

std::vector<double> decays(const RuleOptions& options) {
  std::vector<double> values;
  for (const ParamRule& rule : resolve_rules(options, kViT)) values.push_back(rule.decay);
  return values;
}

TEST(Rules, DecayPresetsByName) {
  EXPECT_EQ(decays({}), (std::vector<double>{0, 0, 1, 0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(decays({.decay_mask = "big_vision"}), (std::vector<double>{0, 0, 1, 0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(decays({.decay_mask = "all"}), std::vector<double>(9, 1));
  EXPECT_EQ(decays({.decay_mask = "none"}), std::vector<double>(9, 0));
}

TEST(Rules, StackedAxisIsNoDimension) {
  // timm decays what has two dimensions or more: a stacked scale has one.
  const Params params = {{"blocks/gamma", {DType::kF32, {3, 48}}, true}, {"gamma", {DType::kF32, {3, 48}}, false}};
  const std::vector<ParamRule> rules = resolve_rules({}, params);
  EXPECT_EQ(rules[0].decay, 0);
  EXPECT_EQ(rules[1].decay, 1);
}

TEST(Rules, PresetsDifferOnTokens) {
  const Params params = {{"attn_pool/latent", {DType::kF32, {1, 1, 48}}}, {"head/kernel", {DType::kF32, {48, 10}}}};
  EXPECT_EQ(resolve_rules({.decay_mask = "timm"}, params)[0].decay, 1);
  EXPECT_EQ(resolve_rules({.decay_mask = "big_vision"}, params)[0].decay, 0);
}

TEST(Rules, FirstMatchWinsBeforeThePreset) {
  EXPECT_EQ(decays({.decay_rules = {"head/kernel = 0.5", "head/.* = 2", "pos_embed=1"}}),
            (std::vector<double>{1, 0, 1, 0, 0, 1, 0, 0.5, 2}));
}

TEST(Rules, RatesAndFreezing) {
  const std::vector<ParamRule> rules =
      resolve_rules({.lr_mult = {"head/.* = 10", "blocks/.* = 1/2", "patch_embed/.* = 0"}, .freeze = {"pos_embed"}}, kViT);
  EXPECT_TRUE(rules[0].frozen);
  EXPECT_FALSE(rules[1].frozen);
  EXPECT_EQ(rules[1].lr_mult, 1);
  EXPECT_TRUE(rules[2].frozen);
  EXPECT_EQ(rules[5].lr_mult, 0.5);
  EXPECT_EQ(rules[7].lr_mult, 10);
}

TEST(Rules, LayerDecayOfEachBlock) {
  Params params = kViT;
  EXPECT_THROW(resolve_rules({.layer_decay = 0.5}, params), Error);  // no layers are known
  const std::vector<int64_t> layers = {0, 0, 0, 0, 1, 1, 1, 4, 4};
  for (size_t i = 0; i < params.size(); ++i) params[i].layer = layers[i];
  const auto rules = resolve_rules({.lr_mult = {"head/bias = 3"}, .layer_decay = 0.5}, params);
  EXPECT_EQ(rules[0].lr_mult, 1.0 / 16);
  EXPECT_EQ(rules[5].lr_mult, 1);
  EXPECT_EQ(rules[5].block_mult, (std::vector<double>{1.0 / 8, 1.0 / 4, 1.0 / 2}));
  EXPECT_EQ(rules[7].lr_mult, 1);
  EXPECT_EQ(rules[8].lr_mult, 3);
  EXPECT_EQ(resolve_rules({.layer_decay = 0.5, .layer_decay_min = 0.2}, params)[0].lr_mult, 0.2);
  EXPECT_THROW(resolve_rules({.layer_decay = 0}, params), Error);
  EXPECT_THROW(resolve_rules({.layer_decay = 1.5}, params), Error);
}

TEST(Rules, SchedulesOfTheirOwn) {
  const std::vector<ParamRule> rules = resolve_rules({.schedules = {"head/.* = constant(1)", "pos_embed = none"}}, kViT);
  EXPECT_EQ(rules[7].schedule, 1u);
  EXPECT_FALSE(rules[7].frozen);
  EXPECT_TRUE(rules[0].frozen);
  EXPECT_EQ(rules[5].schedule, 0u);
  EXPECT_THROW(resolve_rules({.schedules = {"head/.*"}}, kViT), Error);
  EXPECT_THROW(resolve_rules({.schedules = {".* = none"}}, kViT), Error);
}

TEST(Rules, PatternsThatMatchNothingAreErrors) {
  const std::pair<RuleOptions, const char*> cases[] = {
      {{.decay_rules = {"block/.* = 0"}}, "`decay_rules`: no parameter matches \"block/.*\"; did you mean `blocks`"},
      {{.lr_mult = {"block/.* = 0.1"}}, "`lr_mult`: no parameter matches"},
      {{.schedules = {"heads/.* = 1"}}, "`schedules`: no parameter matches"},
      {{.freeze = {"pos_emb"}}, "did you mean `pos_embed`"}};
  for (const auto& [options, text] : cases) {
    try {
      resolve_rules(options, kViT, "small.toml:9");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      EXPECT_EQ(error.where(), "small.toml:9");
      EXPECT_NE(error.help().find("--parameters"), std::string::npos) << error.help();
    }
  }
}

TEST(Rules, MistakesTeach) {
  EXPECT_THROW(resolve_rules({.decay_mask = "tim"}, kViT), Error);
  EXPECT_THROW(resolve_rules({.lr_mult = {"head/.*"}}, kViT), Error);
  EXPECT_THROW(resolve_rules({.lr_mult = {"head/.* = -1"}}, kViT), Error);
  EXPECT_THROW(resolve_rules({.lr_mult = {"head/( = 1"}}, kViT), Error);
  EXPECT_THROW(resolve_rules({.freeze = {".*"}}, kViT), Error);
}

}  // namespace
}  // namespace tessera::optim
