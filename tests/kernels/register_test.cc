// The kernels inside compiled programs, against the same programs without them.

#include "kernels/register.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "nn/attention.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::kernels {
namespace {

using tessera::testing::HostArray;
using ::testing::HasSubstr;
using ::testing::Not;

HostKernels registered() { return register_kernels(*tessera::testing::cpu_client()); }

std::vector<HostArray> run(const ir::Graph& graph, const HostKernels& kernels, const std::vector<HostArray>& arguments) {
  return tessera::testing::run_graph(graph, arguments, {}, kernels);
}

HostArray formula(const std::string& name, const Dims& dims) {
  return tessera::testing::f32_array(dims, tessera::testing::formula_array(name, element_count(dims)));
}

// To `tolerance` of the largest element of a result.
void expect_near(const std::vector<HostArray>& got, const std::vector<HostArray>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    const std::vector<float> a = got[r].floats(), b = want[r].floats();
    ASSERT_EQ(a.size(), b.size());
    double size = 0;
    for (const float x : b) size = std::max(size, std::abs(static_cast<double>(x)));
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * size) << "result " << r << ", element " << i;
  }
}

TEST(Register, AgainIsHarmless) {
  const HostKernels once = registered(), again = registered();
  EXPECT_EQ(once.attention, again.attention);
  EXPECT_FALSE(once.attention.empty());
  EXPECT_EQ(once.product, again.product);
}

// A dense layer's product with both its gradients, and a batched one with its: six forms of operands.
TEST(Register, ProductsOfEveryFormEqualTheCompilers) {
  const HostKernels kernels = registered();
  if (kernels.product.empty()) GTEST_SKIP() << "this machine has no matrix unit (AMX)";
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {256, 96}}), w = graph.add_parameter({DType::kF32, {96, 112}});
  const ir::Value q = graph.add_parameter({DType::kF32, {2, 3, 80, 48}}),
                  k = graph.add_parameter({DType::kF32, {2, 3, 80, 48}});
  const ir::Value y = ir::dot_general(x, w, {{}, {}, {1}, {0}});
  const ir::Value s = ir::dot_general(q, k, {{0, 1}, {0, 1}, {3}, {3}});
  graph.results = {y, s};
  const ir::Value loss = ir::sum_all(y * y) + ir::sum_all(s * s * s);
  for (const ir::Value g : ir::gradient(loss, {x, w, q, k})) graph.results.push_back(g);
  const std::string text = ir::emit(graph, {.name = "test", .aliases = {}, .kernels = kernels});
  EXPECT_THAT(text, HasSubstr("a_transposed = true, b_transposed = false"));
  EXPECT_THAT(text, HasSubstr("a_transposed = false, b_transposed = true"));
  EXPECT_THAT(text, Not(HasSubstr("dot_general")));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.transpose"))) << "a product's gradients come in the order of its operands";
  const std::vector<HostArray> arguments = {formula("x", {256, 96}), formula("w", {96, 112}), formula("q", {2, 3, 80, 48}),
                                            formula("k", {2, 3, 80, 48})};
  expect_near(run(graph, kernels, arguments), run(graph, {}, arguments), 2e-6);
}

TEST(Register, SmallAndOddProductsAreLeftToTheCompiler) {
  HostKernels kernels;
  kernels.product = "some.kernel";
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value small = graph.add_parameter({DType::kF32, {64, 64}});
  const ir::Value bf16 = graph.add_parameter({DType::kBF16, {256, 256}});
  const ir::Value middle = graph.add_parameter({DType::kF32, {128, 128, 128}});
  graph.results = {ir::dot_general(small, small, {{}, {}, {1}, {0}}), ir::dot_general(bf16, bf16, {{}, {}, {1}, {0}}),
                   ir::dot_general(middle, middle, {{2}, {2}, {1}, {1}})};
  EXPECT_THAT(ir::emit(graph, {.name = "test", .aliases = {}, .kernels = kernels}), Not(HasSubstr("some.kernel")));
}

TEST(Register, AttentionEqualsItsDecomposition) {
  const HostKernels kernels = registered();
  const auto trace = [&](const HostKernels& used) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    nn::ParamStore store(graph);
    ir::Values x;
    for (const int64_t tokens : {5, 19, 19}) x.push_back(graph.add_parameter({DType::kF32, {2, tokens, 3, 12}}));
    const nn::Scope place(store, {.kernels = used});
    const ir::Value out = nn::dot_product_attention(place, x[0], x[1], x[2]);
    graph.results = {out};
    for (const ir::Value g : ir::gradient(ir::sum_all(out * out), x)) graph.results.push_back(g);
    EXPECT_EQ(ir::emit(graph).find("attention_gradient") != std::string::npos, !used.attention.empty());
    return run(graph, used, {formula("q", x[0].dims()), formula("k", x[1].dims()), formula("v", x[2].dims())});
  };
  expect_near(trace(kernels), trace({}), 2e-6);
}

TEST(Register, WrongShapesAreRefusedByTheKernel) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value q = graph.add_parameter({DType::kF32, {2, 5, 3, 12}}), k = graph.add_parameter({DType::kF32, {2, 5, 4, 12}});
  graph.results = ir::foreign_call(registered().attention, {q, k, k}, {q.type()});
  EXPECT_THROW(run(graph, {}, {formula("q", q.dims()), formula("k", k.dims())}), Error);
}

}  // namespace
}  // namespace tessera::kernels
