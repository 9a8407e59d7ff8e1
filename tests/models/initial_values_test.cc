// What weights begin as: by the code of timm (vision_transformer.py: init_weights_vit_timm and init_weights_vit_jax; resnet.py,
// convnext.py and mlp_mixer.py: _init_weights) and of big_vision (models/vit.py), and drawn, beside what timm draws
// (tools/references/models/initial_moments.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/model.h"
#include "models/reference.h"

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

// Each parameter under timm's name, drawn so many times.
std::map<std::string, std::vector<float>> draw(const Model& model, uint32_t draws) {
  const std::vector<nn::ParamSpec> specs = parameters(model);
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value key = graph.add_parameter({DType::kU32, {2}});
  for (const nn::ParamSpec& spec : specs) graph.results.push_back(nn::initial_value(spec, key));
  const testing::CompiledGraph program(graph, testing::quick_compile());
  std::map<std::string, std::vector<float>> drawn;
  for (uint32_t seed = 0; seed < draws; ++seed) {
    const std::vector<testing::HostArray> arrays =
        program.run({testing::host_array(DType::kU32, {2}, std::vector<uint32_t>{0, seed})});
    Arrays ours;
    for (size_t i = 0; i < specs.size(); ++i) ours[specs[i].name] = {specs[i].type, arrays[i].data};
    for (const auto& [name, array] : interop::export_timm(model.timm_map(), views(ours))) {
      const std::vector<float> values = to_floats({array.type, array.data});
      drawn[name].insert(drawn[name].end(), values.begin(), values.end());
    }
  }
  return drawn;
}

// `timms`: elements of the parameter, and mean, standard deviation and largest absolute value over 64 draws. A mean or deviation may
// differ by five times what its error is in so many draws. The largest value tells uniform and cut draws, which reach less than
// three deviations, from plain normal ones.
void expect_moments(const std::vector<float>& ours, const std::vector<double>& timms) {
  double mean = 0, squares = 0, largest = 0;
  for (const float v : ours) mean += static_cast<double>(v) / static_cast<double>(ours.size());
  for (const float v : ours) squares += (v - mean) * (v - mean);
  for (const float v : ours) largest = std::max(largest, std::abs(static_cast<double>(v)));
  const double deviation = std::sqrt(squares / static_cast<double>(ours.size()));
  const double error = timms[2] * (1 / std::sqrt(static_cast<double>(ours.size())) + 1 / std::sqrt(64 * timms[0]));
  const double rounding = 1e-6 * std::abs(timms[1]);
  EXPECT_NEAR(mean, timms[1], 5 * error + rounding);
  EXPECT_NEAR(deviation, timms[2], 5 / std::sqrt(2.0) * error + rounding);
  if (timms[0] < 500 || timms[2] == 0) return;
  if (timms[3] < 3 * timms[2]) {
    EXPECT_NEAR(largest / timms[3], 1, 0.1);
  } else {
    EXPECT_GT(largest, 3 * timms[2]);
  }
}

TEST(InitialValues, HaveTimmsMoments) {
  constexpr uint32_t kDraws = 8;
  const auto cases = nlohmann::json::parse(std::ifstream(testing::source_path("tests/references/initial_moments.json")));
  EXPECT_GE(cases.size(), 14u);
  for (const auto& [name, moments] : cases.items()) {
    SCOPED_TRACE(name);
    const std::map<std::string, std::vector<float>> drawn =
        draw(*reference_model(load_reference(fmt::format("model_{}.safetensors", name))), kDraws);
    for (const auto& [parameter, timms] : moments.items()) {
      SCOPED_TRACE(parameter);
      ASSERT_TRUE(drawn.contains(parameter));
      ASSERT_EQ(drawn.at(parameter).size(), kDraws * timms[0].get<size_t>());
      expect_moments(drawn.at(parameter), timms.get<std::vector<double>>());
    }
  }
}

}  // namespace
}  // namespace tessera::models
