// Paths, sharing and stacking of parameters; random keys.

#include "nn/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"
#include "nn/blocks/attention.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

TEST(Scope, NamesAreSlashJoinedAndParametersArgumentsOfTheRoot) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const Scope root(store, {});
  EXPECT_EQ((root / "head").path(), "head");
  EXPECT_EQ((root / "blocks" / "attn").path(), "blocks/attn");
  EXPECT_EQ((root / "blocks" / "attn").name(), "attn");
  const ir::Value kernel = (root / "head").param("kernel", {4, 2}, init::normal(1));
  root.param("cls_token", {1, 1, 4}, init::zeros());
  EXPECT_EQ(store.values()[0], kernel);
  EXPECT_EQ(graph.parameters(), store.values());
  ASSERT_EQ(store.specs().size(), 2u);
  EXPECT_EQ(store.specs()[0].name, "head/kernel");
  EXPECT_EQ(store.specs()[0].type, (TensorType{DType::kF32, {4, 2}}));
  EXPECT_EQ(store.specs()[0].init, init::normal(1));
  EXPECT_FALSE(store.specs()[0].stacked);
  EXPECT_EQ(store.specs()[1].name, "cls_token");
}

// What profiles and plans call them.
TEST(Scope, OpsOfAttentionAreNamedByItsLayers) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {6, 8}});
  graph.results = {attention(Scope(store, {}) / "attn", x, 2, {.heads = 2})};
  std::set<std::string> scopes;
  for (const auto& node : graph.nodes()) scopes.insert(*node->scope);
  EXPECT_THAT(scopes, ::testing::IsSupersetOf({"attn", "attn/qkv", "attn/proj"}));
  EXPECT_THAT(scopes, ::testing::Not(::testing::Contains(::testing::ContainsRegex("qkv/qkv|proj/proj|attn/attn"))));
}

TEST(Scope, ANameTwiceIsAnErrorUnlessShared) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const Scope root(store, {});
  const ir::Value w = root.param("w", {3}, init::zeros());
  EXPECT_THROW(root.param("w", {3}, init::zeros()), InternalError);
  EXPECT_EQ(root.shared().param("w", {3}, init::zeros()), w);
  const ir::Value fresh = (root.shared() / "a").param("b", {3}, init::zeros());
  EXPECT_EQ(fresh, store.values()[1]);
  EXPECT_THROW(root.shared().param("w", {4}, init::zeros()), InternalError);
  EXPECT_EQ(store.specs().size(), 2u);
}

TEST(Scope, ProvidedValuesStandForParameters) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value mine = ir::constant(2, DType::kF32, {3});
  store.provide("w", mine);
  EXPECT_EQ(Scope(store, {}).param("w", {3}, init::zeros()), mine);
  EXPECT_TRUE(graph.parameters().empty());
  EXPECT_EQ(store.specs().size(), 1u);
  store.provide("v", mine);
  EXPECT_THROW(Scope(store, {}).param("v", {4}, init::zeros()), InternalError);
}

TEST(Scope, InAScanParametersAreStacked) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const Scope blocks = Scope(store, {}) / "blocks";
  const ir::Value x = graph.add_parameter({DType::kF32, {2}});
  graph.results = ir::scan(3, {x}, {}, [&](const ir::Values& carry, const ir::Values&) -> ir::ScanResult {
                    const Scope inner = blocks.in_scan({});
                    const ir::Value w = (inner / "ls").param("gamma", {2}, init::ones());
                    EXPECT_EQ(w.dims(), (Dims{2}));
                    return {{carry[0] * w + inner.param("bias", {2}, init::zeros())}, {}};
                  }).carry;
  ASSERT_EQ(store.specs().size(), 2u);
  EXPECT_EQ(store.specs()[0].name, "blocks/ls/gamma");
  EXPECT_EQ(store.specs()[0].type.dims, (Dims{3, 2}));
  EXPECT_EQ(store.specs()[0].layer_dims(), (Dims{2}));
  EXPECT_TRUE(store.specs()[0].stacked);
  const auto out = testing::run_graph(graph, {testing::f32_array({2}, {1, 2}), testing::f32_array({3, 2}, {2, 3, 4, 5, 6, 7}),
                                              testing::f32_array({3, 2}, {1, 1, 0, 0, -1, 2})});
  EXPECT_EQ(out[0].floats(), (std::vector<float>{(1 * 2 + 1) * 4 * 6 - 1, (2 * 3 + 1) * 5 * 7 + 2}));
  EXPECT_THROW(blocks.in_scan({}), InternalError) << "outside of a scan";
}

TEST(Scope, KeysDifferByPathAndBlockAndAreOtherwiseTheSame) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value key = graph.add_parameter({DType::kU32, {2}});
  const Scope root(store, {.training = true, .key = key});
  const auto scanned =
      ir::scan(2, {}, {ir::iota({DType::kI32, {2}}, 0)}, [&](const ir::Values&, const ir::Values& xs) -> ir::ScanResult {
        return {{}, {(root / "a").in_scan(xs[0]).key()}};
      });
  graph.results = {(root / "a").key(), (root / "a").key(), (root / "b").key(), scanned.ys[0]};
  const auto out =
      testing::run_graph(graph, {testing::host_array<uint32_t>(DType::kU32, {2}, {1, 2})}, testing::quick_compile());
  std::vector<std::vector<uint32_t>> keys;
  for (const auto& array : out) keys.push_back(array.as<uint32_t>());
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], keys[2]);
  EXPECT_NE(keys[3][0], keys[3][2]);
  EXPECT_NE(keys[3][0], keys[0][0]);
}

TEST(Scope, DrawsOnlyInTrainingWithAKey) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value key = ir::make_key(1);
  EXPECT_TRUE(Scope(store, {.training = true, .key = key}).random());
  EXPECT_FALSE(Scope(store, {.training = false, .key = key}).random());
  EXPECT_FALSE(Scope(store, {.training = true}).random());
  EXPECT_THROW(Scope(store, {.training = true}).key(), InternalError);
}

TEST(Scope, ComputeParametersAreConvertedAndStayF32Arguments) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const Scope root(store, {.compute = DType::kBF16});
  EXPECT_EQ(root.compute_param("w", {2}, init::zeros()).dtype(), DType::kBF16);
  EXPECT_EQ(store.values()[0].dtype(), DType::kF32);
}

}  // namespace
}  // namespace tessera::nn
