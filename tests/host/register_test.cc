// The kernels inside compiled programs, against the same programs without them.

#include "host/register.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/host_block.h"
#include "nn/layer_norm.h"
#include "nn/max_pool.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::host {
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

// With the gradient of everything.
TEST(Register, ProductsOfPatchesEqualTheConvolution) {
  const auto trace = [](const HostKernels& used, int64_t window, const nn::ConvOptions& options) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {2, 9, 8, 3}}, "x");
    const ir::Value y = nn::conv(nn::Scope(store, {.kernels = used}), x, 5, window, options);
    ir::Values wrt = store.values();
    wrt.push_back(x);
    graph.results = ir::gradient(ir::sum_all(y * y), wrt);
    graph.results.push_back(y);
    EXPECT_EQ(used.patches.empty(), ir::emit(graph).find("stablehlo.convolution") != std::string::npos);
    std::vector<HostArray> arguments = {formula("x", x.dims())};
    for (const nn::ParamSpec& spec : store.specs()) arguments.push_back(formula(spec.name, spec.type.dims));
    return run(graph, used, arguments);
  };
  struct Case {
    int64_t window;
    nn::ConvOptions options;
  };
  const Case cases[] = {{1, {}},
                        {1, {.stride = 2, .bias = false}},
                        {3, {.padding = 1}},
                        {3, {.stride = 2, .padding = 1, .standardize = 1e-6}},
                        {7, {.stride = 2, .padding = 3}},
                        {2, {.stride = 2}}};
  for (const auto& [window, options] : cases) {
    expect_near(trace(registered(), window, options), trace({}, window, options), 2e-6);
  }
}

TEST(Register, MaximaOfWindowsEqualTheCompilers) {
  const auto trace = [](const HostKernels& used, int64_t window, int64_t stride, int64_t padding) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {2, 9, 8, 20}}, "x");
    const ir::Value y = nn::max_pool(nn::Scope(store, {.kernels = used}), ir::relu(x), window, stride, padding);
    graph.results = ir::gradient(ir::sum_all(y * y), {x});
    graph.results.push_back(y);
    EXPECT_EQ(used.max_pool.empty(), ir::emit(graph).find("stablehlo.select_and_scatter") != std::string::npos);
    return run(graph, used, {formula("x", x.dims())});
  };
  for (const auto& [window, stride, padding] : {std::tuple{3, 2, 1}, {3, 2, 0}, {2, 2, 0}, {5, 1, 2}}) {
    expect_near(trace(registered(), window, stride, padding), trace({}, window, stride, padding), 1e-6);
  }
}

// A block of a transformer in the host's calls, with the gradient of everything, and the same in layers.
TEST(Register, TheBranchesOfABlockEqualTheirLayers) {
  const HostKernels kernels = registered();
  if (kernels.dense.empty()) GTEST_SKIP() << "this machine has no matrix unit (AMX)";
  const auto trace = [&](const HostKernels& used, bool biases, nn::Activation activation) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const nn::Scope scope(store, {.training = true, .kernels = used});
    const ir::Value x = graph.add_parameter({DType::kF32, {3 * 19, 48}}, "x");
    const nn::AttentionOptions attention{.heads = 3, .qkv_bias = biases, .proj_bias = biases};
    const nn::MlpOptions mlp{.hidden = 80, .activation = activation, .bias = biases};
    ir::Value y;
    if (nn::host_block_fits(scope, 48, attention, mlp)) {
      y = nn::host_attention_branch(scope / "norm1", scope / "attn", x, 3, 1e-6, attention);
      y = nn::host_mlp_branch(scope / "norm2", scope / "mlp", y, 1e-6, mlp);
    } else {
      y = x + nn::attention(scope / "attn", nn::layer_norm(scope / "norm1", x), 3, attention);
      y = y + nn::mlp(scope / "mlp", nn::layer_norm(scope / "norm2", y), mlp);
    }
    graph.results = {y};
    ir::Values wrt = {x};
    std::map<std::string, ir::Value> by_name;
    for (size_t i = 0; i < store.specs().size(); ++i) by_name[store.specs()[i].name] = store.values()[i];
    for (const auto& [name, value] : by_name) wrt.push_back(value);
    for (const ir::Value g : ir::gradient(ir::sum_all(y * y), wrt)) graph.results.push_back(g);
    EXPECT_EQ(used.dense.empty(), ir::emit(graph).find("dense_gradient") == std::string::npos);
    std::vector<HostArray> arguments = {formula("x", x.dims())};
    for (const nn::ParamSpec& spec : store.specs()) {
      arguments.push_back(tessera::testing::f32_array(
          spec.type.dims, tessera::testing::formula_array(spec.name, element_count(spec.type.dims), 0.3)));
    }
    return run(graph, used, arguments);
  };
  for (const auto& [biases, activation] : {std::pair{true, nn::Activation::kGelu}, {false, nn::Activation::kGeluTanh}}) {
    expect_near(trace(kernels, biases, activation), trace({}, biases, activation), 4e-6);
  }
}

TEST(Register, BranchesThatAreMoreAreLeftToLayers) {
  HostKernels kernels;
  kernels.dense = kernels.self_attention = "some.kernel";
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  nn::ParamStore store(graph);
  const auto fits = [&](const nn::Context& context, const nn::AttentionOptions& attention, const nn::MlpOptions& mlp) {
    return nn::host_block_fits(nn::Scope(store, context), 96, attention, mlp);
  };
  const nn::MlpOptions mlp{.hidden = 384};
  const ir::Value key = graph.add_parameter({DType::kU32, {2}});
  EXPECT_TRUE(fits({.kernels = kernels}, {}, mlp));
  EXPECT_FALSE(fits({}, {}, mlp));
  EXPECT_FALSE(fits({.compute = DType::kBF16, .kernels = kernels}, {}, mlp));
  EXPECT_FALSE(fits({.kernels = kernels}, {.qk_norm = true}, mlp));
  EXPECT_FALSE(fits({.kernels = kernels}, {}, {.hidden = 4096})) << "weights that don't stay in a cache";
  EXPECT_FALSE(fits({.training = true, .key = key, .kernels = kernels}, {.dropout = 0.1}, mlp));
  EXPECT_TRUE(fits({.training = false, .key = key, .kernels = kernels}, {.dropout = 0.1}, mlp));
}

// Two scans with stacks of the same type, which must not become one array, and their gradients.
TEST(Register, StacksThatAreFilledNeedNoZeros) {
  const HostKernels kernels = registered();
  ASSERT_FALSE(kernels.unwritten.empty());
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {256, 128}}), small = graph.add_parameter({DType::kF32, {4}});
  const auto scanned = [](ir::Value from, double factor, bool reverse) {
    const auto body = [&](const ir::Values& c, const ir::Values&) {
      const ir::Value y = ir::checkpoint_name(ir::sin(c[0] * factor), "y");
      return ir::ScanResult{{c[0] + y * y}, {y}};
    };
    return ir::scan(3, {from}, {}, body, {.remat = {ir::RematPolicy::Kind::kSaveNamed, {"y"}}, .reverse = reverse});
  };
  const ir::ScanResult one = scanned(x, 1, false), two = scanned(x, 2, true), three = scanned(small, 1, false);
  graph.results = {one.ys[0], two.ys[0], one.carry[0] + two.carry[0], three.ys[0]};
  graph.results.push_back(ir::gradient(ir::sum_all(one.carry[0] * two.carry[0]) + ir::sum_all(one.ys[0]), {x})[0]);
  HostKernels only;
  only.unwritten = kernels.unwritten;
  const std::string text = ir::emit(graph, {.name = "test", .aliases = {}, .kernels = only});
  EXPECT_THAT(text, HasSubstr("stack = 1"));
  EXPECT_THAT(text, HasSubstr("() -> (tensor<3x256x128xf32>)"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("3x4xf32") != std::string::npos) {
      EXPECT_THAT(line, Not(HasSubstr("unwritten"))) << "a small stack is left to the compiler";
    }
  }
  const std::vector<HostArray> arguments = {formula("x", {256, 128}), formula("small", {4})};
  expect_near(run(graph, only, arguments), run(graph, {}, arguments), 1e-6);
}

TEST(Register, WrongShapesAreRefusedByTheKernel) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value q = graph.add_parameter({DType::kF32, {2, 5, 3, 12}}), k = graph.add_parameter({DType::kF32, {2, 5, 4, 12}});
  graph.results = ir::ffi_call(registered().attention, {q, k, k}, {q.type()});
  EXPECT_THROW(run(graph, {}, {formula("q", q.dims()), formula("k", k.dims())}), Error);
}

TEST(Register, ACallOfADenseLayerThatLacksAnArrayIsRefused) {
  const HostKernels kernels = registered();
  if (kernels.dense.empty()) GTEST_SKIP() << "this machine has no matrix unit (AMX)";
  const std::string sizes = "rows = 4 : i64, in = 8 : i64, out = 8 : i64, epsilon = 0.0 : f64, input = ";
  const HostArray x = formula("x", {4, 8}), kernel = formula("kernel", {8, 8}), bias = formula("bias", {8});
  const auto call = [&](const std::vector<HostArray>& arrays, const std::string& input) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    ir::Values operands;
    for (const HostArray& array : arrays) operands.push_back(graph.add_parameter(array.type));
    graph.results = ir::ffi_call(kernels.dense, operands, {x.type}, sizes + "\"" + input + "\"");
    return run(graph, {}, arrays);
  };
  EXPECT_NO_THROW(call({x, kernel, bias}, "plain"));
  EXPECT_NO_THROW(call({x, kernel, bias, bias, bias}, "norm"));
  EXPECT_THROW(call({x, kernel, bias, bias}, "norm"), Error);
  EXPECT_THROW(call({x, kernel}, "plain"), Error);
  EXPECT_THROW(call({x, kernel, bias}, "Plain"), Error);
  EXPECT_THROW(call({x, kernel, x}, "gelu"), Error);
  EXPECT_THROW(call({x, kernel, bias, bias}, "plain"), Error) << "a residual of another size";
}

}  // namespace
}  // namespace tessera::host
