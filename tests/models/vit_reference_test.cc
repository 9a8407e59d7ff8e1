// Logits, losses and every parameter's gradient against timm's VisionTransformer and big_vision's ViT
// (tools/references/models/vit.py).

#include <gtest/gtest.h>

#include "host/register.h"
#include "models/reference.h"
#include "models/vit/vit.h"

namespace tessera::models {
namespace {

// The recipe's way of writing a case of big_vision_vit.py.
ViTOptions big_vision_options(const nlohmann::json& args) {
  ViTOptions o;
  o.style = "big_vision";
  o.width = args["width"].get<int64_t>();
  o.depth = args["depth"].get<int64_t>();
  o.heads = args["num_heads"].get<int64_t>();
  o.patch = args["patch_size"].get<int64_t>();
  o.pool = args["pool_type"].get<std::string>();
  o.rep_size = args.value("rep_size", 0);
  if (args.value("posemb", "learn") == "sincos2d") o.posemb = "sincos2d";
  return o;
}

ViTOptions timm_options(nlohmann::json args) {
  if (args.contains("model")) {
    ViTOptions o;
    o.variant = "S/16";
    return o;
  }
  const bool sincos2d = args.value("pos_embed", "") == "sincos2d";
  if (sincos2d) args.erase("pos_embed");
  ViTOptions o = vit_options_of_timm(args.dump(), "reference");
  if (sincos2d) o.posemb = "sincos2d", o.posemb_prefix = false;
  return o;
}

ViT make_case(const Reference& reference) {
  const nlohmann::json& config = reference.config;
  InputShape input;
  input.height = config["input"][2];
  input.width = config["input"][3];
  input.classes = reference.dims.at("logits").back();
  const bool big_vision = config["source"] == "big_vision";
  return ViT(resolve(big_vision ? big_vision_options(config["args"]) : timm_options(config["args"]), input));
}

class ViTReference : public ::testing::TestWithParam<std::string> {};

void expect_reference(const std::string& name, const ir::Target* target) {
  const Reference reference = load_reference("vit_" + name + ".safetensors");
  const ViT model = make_case(reference);
  expect_run(model, reference, target);
}

TEST_P(ViTReference, LogitsLossAndGradientsAreTheirs) { expect_reference(GetParam(), {}); }

TEST_P(ViTReference, AreTheirsWithTheHostsKernels) {
  const host::Target target(host::register_kernels(*testing::cpu_client()));
  expect_reference(GetParam(), &target);
}

INSTANTIATE_TEST_SUITE_P(Cases, ViTReference,
                         ::testing::Values("token", "avg", "avg_cls", "map", "none", "no_embed_class", "no_qkv_bias",
                                           "layer_scale", "qk_norm", "pre_norm", "avg_no_fc_norm", "gelu_tanh", "reg2",
                                           "reg2_no_embed_class", "sincos2d", "distilled", "bv_gap", "bv_map", "bv_tok",
                                           "bv_rep", "small_patch16_224"),
                         [](const auto& test) { return test.param; });

TEST(Positions, Sincos2dIsBigVisions) {
  for (const char* name : {"vit_sincos2d.safetensors", "vit_bv_rep.safetensors"}) {
    const std::vector<float> want = load_reference(name).at("pos_embed");
    const std::vector<float> host = sincos2d_values(4, 4, 48);
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    graph.results = {sincos2d(4, 4, 48)};
    const std::vector<float> device = testing::run_graph(graph)[0].as<float>();
    ASSERT_EQ(host.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(host[i], want[i], 1e-6) << i;
      EXPECT_NEAR(device[i], want[i], 1e-6) << i;
    }
  }
}

}  // namespace
}  // namespace tessera::models
