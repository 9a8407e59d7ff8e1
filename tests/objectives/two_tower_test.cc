// Two towers and their losses against big_vision's own code (tools/references/models/two_tower.py): vectors, similarities, both
// losses, the gradient of every parameter, updates; and what a causal mask hides.

#include "models/image_text/two_tower.h"

#include "objectives/contrastive.h"
#include "objectives/reference_case.h"

namespace tessera::objectives {
namespace {

// The text tower with `pool` instead of the case's, where it is not empty.
models::TwoTower make_case(const json& config, const std::string& pool) {
  const json &m = config["model"], &image = m["image"], &text = m["text"];
  models::TwoTowerOptions o;
  models::ViTOptions& vit = o.image.vit;
  vit.width = image["width"], vit.depth = image["depth"], vit.heads = image["num_heads"], vit.mlp_dim = image["mlp_dim"];
  vit.patch = image["patch_size"][0], vit.pool = image["pool_type"];
  o.text.width = text["width"], o.text.depth = text["depth"], o.text.heads = text["num_heads"],
  o.text.mlp_dim = text["mlp_dim"];
  o.text.pool = pool.empty() ? text["pool_type"].get<std::string>() : pool;
  if (m["out_dim"].is_number()) o.out_dim = m["out_dim"];
  o.temperature_init = m["temperature_init"];
  if (m.contains("bias_init")) o.bias_init = m["bias_init"];
  models::InputShape input;
  input.height = input.width = config["image"];
  input.tokens = static_cast<int64_t>(config["texts"][0].size()), input.vocabulary = text["vocab_size"];
  return models::TwoTower(models::resolve(o, input));
}

class Case final : public ReferenceCase {
 public:
  explicit Case(const std::string& name, const std::string& pool = {})
      : ReferenceCase("two_tower_" + name + ".safetensors"), model_(make_case(config(), pool)) {
    const models::InputShape& in = model_.input();
    const auto batch = static_cast<int64_t>(config()["texts"].size());
    images_ = model_.embed_images(
        scope(), add(testing::f32_array({batch, in.height, in.width, 3},
                                        testing::formula_array("two_tower/input0", batch * in.height * in.width * 3))));
    texts_ = model_.embed_texts(scope(), add(testing::i32_array({batch, in.tokens}, flat<int32_t>(config()["texts"]))));
  }

  ir::Value images() const { return images_; }
  ir::Value texts() const { return texts_; }
  ir::Value similarities() { return models::similarities(model_, scope(), images_, texts_); }
  // The case's, of the batch.
  ir::Value loss() {
    const ir::Value x = similarities();
    return ir::mean(config()["loss"] == "siglip" ? sigmoid_contrast(x) : softmax_contrast(x), {0});
  }

 private:
  std::vector<float> value_of(const nn::ParamSpec& spec) const override {
    const json& m = config()["model"];
    if (spec.name == "t") return {static_cast<float>(std::log(m["temperature_init"].get<double>()))};
    if (spec.name == "b") return {m["bias_init"].get<float>()};
    return formula_value(spec.name, spec.type.dims, /*embeddings=*/0.5);
  }

  models::TwoTower model_;
  ir::Value images_, texts_;
};

class TwoTowerReference : public ::testing::TestWithParam<std::string> {};

TEST_P(TwoTowerReference, VectorsLossesAndGradientsAreBigVisions) {
  Case c(GetParam());
  const ir::Value x = c.similarities();
  ir::Values results = {c.images(), c.texts(), x, sigmoid_contrast(x), softmax_contrast(x), c.loss()};
  for (const ir::Value grad : c.gradient(results.back())) results.push_back(grad);
  const auto got = c.run(results);
  const char* const keys[] = {"images", "texts", "logits"};
  for (size_t i = 0; i < 3; ++i) c.expect(keys[i], got[i], 1e-5);
  c.expect("siglip_rows", got[3], 1e-5);
  c.expect("softmax_rows", got[4], 1e-5);
  c.expect(c.config()["loss"], got[5], 1e-5);
  c.expect_gradients(got, 6);
}

TEST_P(TwoTowerReference, FiveUpdatesAreBigVisions) {
  Case c(GetParam());
  c.expect_updates(c.loss(), 5);
}

INSTANTIATE_TEST_SUITE_P(Cases, TwoTowerReference, ::testing::Values("siglip", "clip"),
                         [](const auto& test) { return test.param; });

TEST(TwoTower, PoolsOfTheTextTowerAreBigVisions) {
  for (const std::string pool : {"first", "mean", "max"}) {
    Case c("siglip", pool);
    c.expect("texts/" + pool, c.run({c.texts()})[0], 1e-5);
  }
}

TEST(TwoTower, TakesANameAndChangesToIt) {
  const auto make = [](const std::string& more) {
    config::Section recipe = config::parse_recipe("model = { name = \"two_tower\", variant = \"siglip_l16_256\"" + more + " }");
    return models::make_model(recipe.section("model"), {})->describe();
  };
  EXPECT_EQ(make(""),
            "two towers: ViT 1024 x 24, patch 16, 256 x 256 images; text 1024 x 24, 64 tokens of 32000; 1024 dimensions");
  EXPECT_EQ(make(", image = { depth = 2 }, text = { tokens = 16 }"),
            "two towers: ViT 1024 x 2, patch 16, 256 x 256 images; text 1024 x 24, 16 tokens of 32000; 1024 dimensions");
}

// With a causal mask the first token knows nothing of the others; without one it does.
TEST(TwoTower, ACausalMaskHidesWhatComesAfter) {
  for (const bool causal : {false, true}) {
    models::TextOptions options;
    options.width = 8, options.depth = 2, options.heads = 2, options.pool = "first", options.causal = causal;
    models::InputShape input;
    input.tokens = 4, input.vocabulary = 9;
    const models::TextTransformer tower(models::resolve(options, input));
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value ids = graph.add_parameter({DType::kI32, {2, 4}});
    graph.results = {tower.features(nn::Scope(store, {}), ids)};
    std::vector<HostArray> arguments = {testing::i32_array({2, 4}, {5, 1, 2, 3, 5, 6, 7, 8})};
    for (const nn::ParamSpec& spec : store.specs()) {
      arguments.push_back(testing::f32_array(spec.type.dims, formula_value(spec.name, spec.type.dims, 1)));
    }
    const std::vector<float> x = testing::run_graph(graph, arguments, testing::quick_compile())[0].floats();
    const bool same = std::equal(x.begin(), x.begin() + 8, x.begin() + 8);
    EXPECT_EQ(same, causal);
  }
}

}  // namespace
}  // namespace tessera::objectives
