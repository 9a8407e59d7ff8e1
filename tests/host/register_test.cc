// The kernels inside compiled programs, against the same programs without them.

#include "host/register.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "host/product.h"
#include "host/target.h"
#include "host/units/tiles.h"
#include "ir/composites.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/program/program.h"
#include "mesh/mesh.h"
#include "nn/blocks/attention.h"
#include "nn/blocks/encoder_blocks.h"
#include "nn/blocks/fused_block.h"
#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/max_pool.h"
#include "nn/norm/batch_norm.h"
#include "nn/norm/layer_norm.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::host {
namespace {

using tessera::testing::HostArray;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// With this machine's kernels, or with those given; a program's devices are one here.
Target registered() { return Target(register_kernels(*tessera::testing::cpu_client())); }
bool has(const Kernel& kernel) { return register_kernels(*tessera::testing::cpu_client()).has(kernel); }

std::string text_of(const ir::Graph& graph, const Target* target = nullptr) { return ir::program_text(graph, {}, target); }

// How all programs here are compiled: they have little to compute, and what is tested of them is not what LLVM makes of them.
pjrt::CompileOptions quick() { return tessera::testing::quick_compile(); }

std::vector<HostArray> run(const ir::Graph& graph, const Target* target, const std::vector<HostArray>& arguments) {
  return tessera::testing::run_graph(graph, arguments, quick(), target);
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
  const Kernels once = register_kernels(*tessera::testing::cpu_client()),
                again = register_kernels(*tessera::testing::cpu_client());
  EXPECT_EQ(once, again);
  EXPECT_TRUE(once.has(kAttention));
  EXPECT_TRUE(once.has(kProduct));
  EXPECT_TRUE(once.has(kDense));
}

// A program finds a function by its name alone.
TEST(Register, EveryFunctionOfTheTableHasItsOwnName) {
  std::set<std::string> names;
  size_t functions = 0;
  for (const Kernel* kernel : kernel_table()) {
    for (const Entry& entry : kernel->functions) names.insert(call_target(entry.name)), ++functions;
  }
  EXPECT_EQ(names.size(), functions);
  EXPECT_GT(functions, kernel_table().size());
}

// A dense layer's product with both its gradients, and a batched one with its: six forms of operands.
TEST(Register, ProductsOfEveryFormEqualTheCompilers) {
  const Target target = registered();
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
  const std::string text = text_of(graph, &target);
  EXPECT_THAT(text, HasSubstr("a_transposed = true, b_transposed = false"));
  EXPECT_THAT(text, HasSubstr("a_transposed = false, b_transposed = true"));
  EXPECT_THAT(text, Not(HasSubstr("dot_general")));
  EXPECT_THAT(text, Not(HasSubstr("stablehlo.transpose"))) << "a product's gradients come in the order of its operands";
  const std::vector<HostArray> arguments = {formula("x", {256, 96}), formula("w", {96, 112}), formula("q", {2, 3, 80, 48}),
                                            formula("k", {2, 3, 80, 48})};
  expect_near(run(graph, &target, arguments), run(graph, nullptr, arguments), 2e-6);
}

ir::Value middle_rows(ir::Graph& graph) { return graph.add_parameter({DType::kF32, {128, 128}}); }

TEST(Register, SmallAndOddProductsAreLeftToTheCompiler) {
  const Target target({&kProduct});
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value small = graph.add_parameter({DType::kF32, {64, 64}});
  const ir::Value whole = graph.add_parameter({DType::kI32, {256, 256}});
  const ir::Value middle = graph.add_parameter({DType::kF32, {128, 128, 128}});
  graph.results = {ir::dot_general(small, small, {{}, {}, {1}, {0}}), ir::dot_general(whole, whole, {{}, {}, {1}, {0}}),
                   ir::dot_general(middle, middle, {{2}, {2}, {1}, {1}})};
  EXPECT_THAT(text_of(graph, &target), Not(HasSubstr("tessera.product")));
  graph.results = {ir::matmul(middle_rows(graph), middle_rows(graph))};
  EXPECT_THAT(text_of(graph, &target), HasSubstr("tessera.product"));
}

// Each of several devices multiplies its own rows of the batch, and of the kernel's gradient has its share.
TEST(Register, ProductsOfSeveralDevicesAreThoseOfTheirRows) {
  const mesh::Mesh mesh = mesh::parse_mesh("fsdp=2", 2);
  const Target target({&kProduct}, mesh);
  ir::EmitOptions options;
  options.mesh = mesh;
  const auto text = [&](bool rows) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {256, 128}}), w = graph.add_parameter({DType::kF32, {128, 128}});
    const ir::Value y = rows ? ir::rows_of_batch(ir::matmul(x, w)) : ir::matmul(x, w);
    graph.results = ir::gradient(ir::sum_all(y * y), {x, w});
    return ir::program_text(graph, options, &target);
  };
  EXPECT_THAT(text(false), Not(HasSubstr("tessera.product"))) << "a call is opaque to the partitioner";
  EXPECT_THAT(text(true), AllOf(HasSubstr("batch = 1 : i64, m = 128 : i64, n = 128 : i64, k = 128 : i64, a_transposed = false, "
                                          "b_transposed = false"),
                                HasSubstr("a_transposed = false, b_transposed = true"),
                                HasSubstr("a_transposed = true, b_transposed = false"),
                                HasSubstr("(tensor<128x128xf32>) -> (tensor<1x128x128xf32>)"), Not(HasSubstr("dot_general"))));
}

TEST(Register, NormsOfArraysOfAKnownLayoutAreCalls) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {6, 96, 48}}), y = graph.add_parameter({DType::kF32, {7}});
  graph.results = {ir::global_norm({x, y})};
  const Target target = registered();
  EXPECT_THAT(text_of(graph, &target), HasSubstr("tessera.sum_of_squares"));
  const std::vector<HostArray> arguments = {formula("x", {6, 96, 48}), formula("y", {7})};
  expect_near(run(graph, &target, arguments), run(graph, nullptr, arguments), 2e-6);
  const auto on_devices = [&](const std::string& words) {
    ir::EmitOptions options;
    options.mesh = mesh::parse_mesh(words, 8);
    const Target devices({&kSumOfSquares}, options.mesh);
    return ir::program_text(graph, options, &devices);
  };
  const auto is_called = HasSubstr("tessera.sum_of_squares");
  EXPECT_THAT(on_devices("replica=8"), is_called);
  EXPECT_THAT(on_devices("replica=2, fsdp=4"), Not(is_called)) << "each device has a part, and the layout is not known";
  graph.results = {ir::global_norm({x, y}, {{{{}, {"fsdp"}}}, {}})};
  EXPECT_THAT(on_devices("replica=2, fsdp=4"),
              AllOf(is_called, HasSubstr("(tensor<6x24x48xf32>)"), HasSubstr("(tensor<7xf32>)")))
      << "each device adds up its part, and what all have";
  EXPECT_THAT(on_devices("replica=8"), AllOf(is_called, HasSubstr("(tensor<6x96x48xf32>, tensor<7xf32>)")));
}

TEST(Register, AttentionEqualsItsDecomposition) {
  const Target target = registered();
  const auto trace = [&](const Target* used) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    nn::ParamStore store(graph);
    ir::Values x;
    for (const int64_t tokens : {5, 19, 19}) x.push_back(graph.add_parameter({DType::kF32, {2, tokens, 3, 12}}));
    const nn::Scope place(store, {.target = used});
    const ir::Value out = nn::dot_product_attention(place, x[0], x[1], x[2]);
    graph.results = {out};
    for (const ir::Value g : ir::gradient(ir::sum_all(out * out), x)) graph.results.push_back(g);
    EXPECT_EQ(text_of(graph, used).find("attention_gradient") != std::string::npos, used != nullptr);
    return run(graph, used, {formula("q", x[0].dims()), formula("k", x[1].dims()), formula("v", x[2].dims())});
  };
  expect_near(trace(&target), trace(nullptr), 2e-6);
}

// It is done in f32. What is rounded to bf16: the result, its cotangent, and the gradient, by 2^-9 each.
TEST(Register, AttentionInBf16IsThatInF32Rounded) {
  const Target target = registered();
  const auto trace = [&](const Target* used, DType dtype) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    nn::ParamStore store(graph);
    ir::Values x, rounded;
    for (int i = 0; i < 3; ++i) {
      x.push_back(graph.add_parameter({DType::kF32, {2, 19, 3, 12}}));
      rounded.push_back(ir::convert(ir::convert(x.back(), DType::kBF16), dtype));
    }
    const nn::Scope place(store, {.compute = dtype, .target = used});
    const ir::Value out = ir::convert(nn::dot_product_attention(place, rounded[0], rounded[1], rounded[2]), DType::kF32);
    graph.results = {out};
    for (const ir::Value g : ir::gradient(ir::sum_all(out * out), x)) graph.results.push_back(g);
    EXPECT_EQ(text_of(graph, used).find("attention_gradient") != std::string::npos, used != nullptr);
    return run(graph, used, {formula("q", x[0].dims()), formula("k", x[1].dims()), formula("v", x[2].dims())});
  };
  expect_near(trace(&target, DType::kBF16), trace(nullptr, DType::kF32), 0x1p-7);
}

// Numbers that bf16 holds exactly, so no rounding hides a slice of another iteration.
TEST(Register, StacksOfBitsHoldTheNumbers) {
  const Target target = registered();
  const auto trace = [](const Target* used) {
    ir::Graph graph;
    const ir::GraphScope scope(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {4}}), w = graph.add_parameter({DType::kF32, {3, 4}});
    const auto body = [](const ir::Values& c, const ir::Values& s) { return ir::ScanResult{{c[0] * s[0]}, {c[0] + s[0]}}; };
    const ir::ScanResult all = ir::scan(3, {ir::convert(x, DType::kBF16)}, {ir::convert(w, DType::kBF16)}, body,
                                        {.remat = {.kind = ir::RematPolicy::Kind::kSaveAll}});
    const ir::Value last = ir::convert(all.carry[0], DType::kF32), sums = ir::convert(all.ys[0], DType::kF32);
    graph.results = ir::gradient(ir::sum_all(last) + ir::sum_all(sums * sums), {x, w});
    graph.results.insert(graph.results.end(), {last, sums});
    EXPECT_EQ(text_of(graph, used).find("ui16") != std::string::npos, used != nullptr);
    const auto f32 = [](const Dims& dims, const std::vector<float>& numbers) {
      return tessera::testing::f32_array(dims, numbers);
    };
    return run(graph, used, {f32({4}, {1, 2, -1, 3}), f32({3, 4}, {2, 1, 0, -1, 0.5, 3, 1, 2, -4, 1, 2, 0.25})});
  };
  expect_near(trace(&target), trace(nullptr), 0);
}

// With the gradient of everything.
TEST(Register, ConvolutionsEqualTheCompilers) {
  const Target target = registered();
  const auto trace = [](const Target* used, int64_t features, int64_t window, const nn::ConvOptions& options) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {2, 9, 8, 3}}, "x");
    const ir::Value y = nn::conv(nn::Scope(store, {.target = used}), x, features, window, options);
    ir::Values wrt = store.values();
    wrt.push_back(x);
    graph.results = ir::gradient(ir::sum_all(y * y), wrt);
    graph.results.push_back(y);
    EXPECT_EQ(!used, text_of(graph, used).find("stablehlo.convolution") != std::string::npos);
    std::vector<HostArray> arguments = {formula("x", x.dims())};
    for (const nn::ParamSpec& spec : store.specs()) arguments.push_back(formula(spec.name, spec.type.dims));
    return run(graph, used, arguments);
  };
  struct Case {
    int64_t features, window;
    nn::ConvOptions options;
  };
  const Case cases[] = {{5, 1, {}},
                        {5, 1, {.stride = 2, .bias = false}},
                        {5, 3, {.padding = 1}},
                        {5, 3, {.stride = 2, .padding = 1, .standardize = 1e-6}},
                        {5, 7, {.stride = 2, .padding = 3}},
                        {5, 2, {.stride = 2}},
                        {3, 3, {.padding = 1, .groups = 3}},
                        {3, 3, {.stride = 2, .padding = 1, .groups = 3}},
                        {6, 3, {.padding = 1, .groups = 3}}};
  for (const auto& [features, window, options] : cases) {
    expect_near(trace(&target, features, window, options), trace(nullptr, features, window, options), 2e-6);
  }
}

// Both programs, one after the other; the first `fixed` arguments are those that stay the same.
std::vector<HostArray> run_split(const ir::SplitText& text, const std::vector<HostArray>& arguments, size_t fixed) {
  const std::shared_ptr<pjrt::Client>& client = tessera::testing::cpu_client();
  std::vector<pjrt::Buffer> buffers;
  for (const HostArray& a : arguments) buffers.push_back(client->to_device(a.data.data(), a.type));
  std::vector<pjrt::Buffer*> all, taken;
  for (pjrt::Buffer& buffer : buffers) all.push_back(&buffer);
  std::vector<pjrt::Buffer> prepared = tessera::testing::compile_cached(text.prepare, quick()).run(std::span(all).first(fixed));
  for (const size_t place : text.kept) taken.push_back(all[place]);
  for (pjrt::Buffer& buffer : prepared) taken.push_back(&buffer);
  taken.insert(taken.end(), all.begin() + static_cast<ptrdiff_t>(fixed), all.end());
  std::vector<HostArray> results;
  for (const pjrt::Buffer& b : tessera::testing::compile_cached(text.run, quick()).run(taken)) {
    HostArray& result = results.emplace_back(b.type(), std::vector<std::byte>(static_cast<size_t>(b.bytes())));
    b.to_host(result.data.data(), result.data.size()).await();
  }
  return results;
}

// What is made of weights alone is a program of its own; the rest gives the same bits as the whole program.
TEST(Register, WeightsThatStayTheSameArePackedOnce) {
  const Target target = registered();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const nn::Scope scope(store, {.compute = dtype, .target = &target});
    const ir::Value x = graph.add_parameter({DType::kF32, {3, 6, 5, 32}}, "x");
    const ir::Value y = nn::conv(scope / "conv", x, 48, 3, {.padding = 1, .bias = false});
    const ir::Value rows = ir::reshape(nn::batch_norm(scope / "bn", y, {.relu = true}), {90, 48});
    const ir::Value mixed =
        nn::fused_mlp_branch(scope / "norm", scope / "mlp", rows, 1e-6, {.hidden = 96}, nn::Residual::kAdded);
    const ir::Value head = ir::convert(nn::dense(scope / "head", mixed, 300), DType::kF32);
    graph.results = {head};
    // The weights first, as in programs over a model.
    ir::Values parameters = store.values();
    const size_t weights = parameters.size();
    parameters.push_back(x);
    graph.set_parameters(parameters);
    std::vector<HostArray> arguments;
    for (const nn::ParamSpec& spec : store.specs()) {
      arguments.push_back(formula(spec.name, spec.type.dims));
      if (spec.name == "bn/running_var") {
        arguments.back() = tessera::testing::f32_array(spec.type.dims, std::vector<float>(48, 2.5F));
      }
    }
    arguments.push_back(formula("x", x.dims()));
    const ir::SplitText text = ir::split_program_text(graph, {.name = "test"}, weights, target);
    EXPECT_THAT(text.prepare, AllOf(HasSubstr("tessera.convolution_weights"), HasSubstr("tessera.dense_weights"),
                                    HasSubstr("tessera.product_weights")));
    EXPECT_THAT(text.run, Not(HasSubstr("_weights\"")));
    EXPECT_LT(text.kept.size(), weights);
    const std::vector<HostArray> want = run(graph, &target, arguments);
    EXPECT_EQ(run_split(text, arguments, weights)[0].floats(), want[0].floats());
  }
}

// With what comes after them, in training: the call, its decomposition, and the layers.
TEST(Register, BatchNormsEqualTheCompilers) {
  const Target target = registered();
  const auto trace = [](const Target* traced, const Target* finished, bool relu, bool adds) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {3, 5, 4, 20}}, "x"), more = graph.add_parameter(x.type(), "more");
    const nn::Scope scope(store, {.training = true, .target = traced});
    const ir::Value y = nn::batch_norm(scope / "bn", x, {.relu = relu, .residual = adds ? more : ir::Value{}});
    ir::Values wrt = {x, more};
    for (size_t i = 0; i < store.specs().size(); ++i) {
      if (store.specs()[i].trained) wrt.push_back(store.values()[i]);
    }
    graph.results = ir::gradient(ir::sum_all(y * y * (y + 1.0)), wrt);
    graph.results.push_back(y);
    for (const nn::BufferUpdate& update : store.updates()) graph.results.push_back(update.value);
    EXPECT_EQ(finished != nullptr, text_of(graph, finished).find("tessera.batch_norm_backward") != std::string::npos);
    std::vector<HostArray> arguments = {formula("x", x.dims()), formula("more", x.dims())};
    for (const nn::ParamSpec& spec : store.specs()) arguments.push_back(formula(spec.name, spec.type.dims));
    return run(graph, finished, arguments);
  };
  for (const bool relu : {false, true}) {
    for (const bool adds : {false, true}) {
      const std::vector<HostArray> want = trace(nullptr, nullptr, relu, adds);
      expect_near(trace(&target, &target, relu, adds), want, 4e-6);
      expect_near(trace(&target, nullptr, relu, adds), want, 4e-6);
    }
  }
}

// Outside of training a convolution's call does the norm after it as well, in f32 and in bf16.
TEST(Register, NormsOfConvolutionsAreOneCall) {
  const Target target = registered();
  const auto trace = [](const Target* used, bool relu, bool adds, DType dtype) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {3, 6, 5, 32}}, "x"),
                    more = graph.add_parameter({DType::kF32, {3, 6, 5, 48}}, "more");
    const nn::Scope scope(store, {.compute = dtype, .target = used});
    const ir::Value y = nn::conv(scope / "conv", x, 48, 3, {.padding = 1, .bias = false});
    const ir::Value added = adds ? ir::convert(more, dtype) : ir::Value{};
    graph.results = {ir::convert(nn::batch_norm(scope / "bn", y, {.relu = relu, .residual = added}), DType::kF32)};
    const std::string text = text_of(graph, used);
    EXPECT_EQ(used != nullptr, text.find("tessera.convolution_with_norm") != std::string::npos);
    EXPECT_EQ(text.find("tessera.convolution\""), std::string::npos) << "a call that nothing reads:\n" << text;
    EXPECT_EQ(text.find("tessera.batch_norm_inference"), std::string::npos) << text;
    std::vector<HostArray> arguments = {formula("x", x.dims()), formula("more", more.dims())};
    for (const nn::ParamSpec& spec : store.specs()) {
      arguments.push_back(formula(spec.name, spec.type.dims));
      if (spec.name == "bn/running_var")
        arguments.back() = tessera::testing::f32_array(spec.type.dims, std::vector<float>(48, 2.5F));
    }
    return run(graph, used, arguments);
  };
  for (const bool relu : {false, true}) {
    for (const bool adds : {false, true}) {
      expect_near(trace(&target, relu, adds, DType::kF32), trace(nullptr, relu, adds, DType::kF32), 2e-6);
      expect_near(trace(&target, relu, adds, DType::kBF16), trace(nullptr, relu, adds, DType::kBF16), 0x1p-7);
    }
  }
}

// Of something that no convolution gives it is a call of its own.
TEST(Register, BatchNormsWithGivenStatisticsEqualTheCompilers) {
  const Target target = registered();
  const auto trace = [](const Target* used) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {3, 5, 4, 20}}, "x");
    graph.results = {nn::batch_norm(nn::Scope(store, {.target = used}) / "bn", x, {.relu = true})};
    EXPECT_EQ(used != nullptr, text_of(graph, used).find("tessera.batch_norm_inference") != std::string::npos);
    std::vector<HostArray> arguments = {formula("x", x.dims())};
    for (const nn::ParamSpec& spec : store.specs()) {
      arguments.push_back(formula(spec.name, spec.type.dims));
      if (spec.name == "bn/running_var")
        arguments.back() = tessera::testing::f32_array(spec.type.dims, std::vector<float>(20, 2.5F));
    }
    return run(graph, used, arguments);
  };
  expect_near(trace(&target), trace(nullptr), 2e-6);
}

TEST(Register, MaximaOfWindowsEqualTheCompilers) {
  const Target target = registered();
  const auto trace = [](const Target* used, int64_t window, int64_t stride, int64_t padding) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {2, 9, 8, 20}}, "x");
    const ir::Value y = nn::max_pool(nn::Scope(store, {.target = used}), ir::relu(x), window, stride, padding);
    graph.results = ir::gradient(ir::sum_all(y * y), {x});
    graph.results.push_back(y);
    EXPECT_EQ(!used, text_of(graph, used).find("stablehlo.select_and_scatter") != std::string::npos);
    return run(graph, used, {formula("x", x.dims())});
  };
  for (const auto& [window, stride, padding] : {std::tuple{3, 2, 1}, {3, 2, 0}, {2, 2, 0}, {5, 1, 2}}) {
    expect_near(trace(&target, window, stride, padding), trace(nullptr, window, stride, padding), 1e-6);
  }
}

constexpr int64_t kTokens = 19;  // of a sample

// [3 * kTokens, features] -> the first `count` of each sample.
ir::Value first_tokens(ir::Value x, int64_t count) {
  const ir::Value samples = ir::reshape(x, {3, kTokens, x.dim(1)});
  return ir::reshape(ir::slice_axis(samples, 1, 0, count), {3 * count, x.dim(1)});
}

// x, and smaller numbers for each parameter.
std::vector<HostArray> inputs_of(ir::Value x, const nn::ParamStore& store) {
  std::vector<HostArray> inputs = {formula("x", x.dims())};
  for (const nn::ParamSpec& spec : store.specs()) {
    inputs.push_back(tessera::testing::f32_array(
        spec.type.dims, tessera::testing::formula_array(spec.name, element_count(spec.type.dims), 0.3)));
  }
  return inputs;
}

// A block of a transformer traced for `traced`, with the gradient of everything, and run on `finished`.
std::vector<HostArray> block_results(const Target* traced, const Target* finished, bool biases, nn::Activation activation,
                                     DType dtype = DType::kF32, int64_t tokens = kTokens,
                                     nn::Residual residual = nn::Residual::kAdded) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  nn::ParamStore store(graph);
  const nn::Scope scope(store, {.training = true, .compute = dtype, .target = traced});
  const ir::Value input = graph.add_parameter({DType::kF32, {3 * kTokens, 48}}, "x"), x = ir::convert(input, dtype);
  const nn::AttentionOptions attention{.heads = 3, .qkv_bias = biases, .proj_bias = biases};
  const nn::MlpOptions mlp{.hidden = 80, .activation = activation, .bias = biases};
  const bool fused = nn::fused_attention_fits(scope, x, 3, tokens, attention) && nn::fused_mlp_fits(scope, x, mlp);
  EXPECT_EQ(fused, traced != nullptr);
  ir::Value y;
  if (fused) {
    const auto add = [&](ir::Value to, ir::Value branch) { return residual == nn::Residual::kAdded ? branch : to + branch; };
    y = add(first_tokens(x, tokens),
            nn::fused_attention_branch(scope / "norm1", scope / "attn", x, 3, tokens, 1e-6, attention, residual));
    y = add(y, nn::fused_mlp_branch(scope / "norm2", scope / "mlp", y, 1e-6, mlp, residual));
  } else {
    y = x + nn::attention(scope / "attn", nn::layer_norm(scope / "norm1", x), 3, attention);
    y = first_tokens(y + nn::mlp(scope / "mlp", nn::layer_norm(scope / "norm2", y), mlp), tokens);
  }
  y = ir::convert(y, DType::kF32);
  graph.results = {y};
  ir::Values wrt = {input};
  std::map<std::string, ir::Value> by_name;
  for (size_t i = 0; i < store.specs().size(); ++i) by_name[store.specs()[i].name] = store.values()[i];
  for (const auto& [name, value] : by_name) wrt.push_back(value);
  for (const ir::Value g : ir::gradient(ir::sum_all(y * y), wrt)) graph.results.push_back(g);
  EXPECT_EQ(finished != nullptr, text_of(graph, finished).find("tessera.dense_backward") != std::string::npos);
  return run(graph, finished, inputs_of(x, store));
}

constexpr std::pair<bool, nn::Activation> kBlocks[] = {{true, nn::Activation::kGelu}, {false, nn::Activation::kGeluTanh}};

// In calls, and the same in layers.
TEST(Register, TheBranchesOfABlockEqualTheirLayers) {
  const Target target = registered();
  for (const auto& [biases, activation] : kBlocks) {
    const std::vector<HostArray> want = block_results(nullptr, nullptr, biases, activation);
    for (const nn::Residual residual : {nn::Residual::kAdded, nn::Residual::kLeft}) {
      expect_near(block_results(&target, &target, biases, activation, DType::kF32, kTokens, residual), want, 4e-6);
    }
  }
}

TEST(Register, TheBranchesOfTheTokensThatAreSeenEqualTheirLayers) {
  const Target target = registered();
  for (const int64_t tokens : {1, 2}) {
    const auto results = [&](const Target* used) {
      return block_results(used, used, true, nn::Activation::kGelu, DType::kF32, tokens);
    };
    expect_near(results(&target), results(nullptr), 4e-6);
  }
}

// Blocks whose last one computes the first token alone are the same function as blocks of all tokens.
TEST(Register, BlocksOfTheTokenThatIsSeenEqualThoseOfAll) {
  const Target target = registered();
  const auto results = [&](int64_t depth, int64_t tokens) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const nn::Scope scope(store, {.training = true, .target = &target});
    const ir::Value x = graph.add_parameter({DType::kF32, {3 * kTokens, 48}}, "x");
    nn::EncoderBlockOptions options;
    options.attention.heads = 3;
    options.mlp.hidden = 80;
    ir::Value y = nn::encoder_blocks(scope / "blocks", x, 3,
                                     {.count = depth, .drop_path = {}, .remat = {ir::RematPolicy::Kind::kSaveAll, {}}}, options,
                                     {}, tokens);
    EXPECT_EQ(y.dim(0), 3 * (tokens > 0 ? tokens : kTokens));
    if (tokens == 0) y = first_tokens(y, 1);
    ir::Values wrt = store.values();
    wrt.push_back(x);
    graph.results = ir::gradient(ir::sum_all(y * y), wrt);
    graph.results.push_back(y);
    const std::string text = text_of(graph, &target);
    EXPECT_EQ(text.find("stablehlo.while"), std::string::npos);
    for (const nn::ParamSpec& spec : store.specs()) EXPECT_EQ(spec.type.dims[0], depth);
    return run(graph, &target, inputs_of(x, store));
  };
  for (const int64_t depth : {1, 3}) expect_near(results(depth, 1), results(depth, 0), 4e-6);
}

// Against the layers in f32: a number of a branch is rounded some eight times, forward and backward, by 2^-8 each.
TEST(Register, TheBranchesOfABlockInBf16FollowThoseInF32) {
  const Target target = registered();
  for (const auto& [biases, activation] : kBlocks) {
    const std::vector<HostArray> want = block_results(nullptr, nullptr, biases, activation);
    expect_near(block_results(&target, &target, biases, activation, DType::kBF16), want, 0x1p-5);
    expect_near(block_results(&target, nullptr, biases, activation, DType::kBF16), want, 0x1p-5);
  }
}

// Traced as calls, and then finished for a machine that has none of the kernels: the composites say in ops what they mean.
TEST(Register, TheBranchesOfABlockMeanTheirLayers) {
  const Target target({&kAttention, &kDense});
  for (const auto& [biases, activation] : kBlocks) {
    expect_near(block_results(&target, nullptr, biases, activation), block_results(nullptr, nullptr, biases, activation), 4e-6);
  }
}

// Without a norm before it, as over the tokens of a Mixer: in calls, and as the composites mean it.
TEST(Register, AnMlpEqualsItsLayers) {
  const Target target = registered();
  const auto results = [](const Target* traced, const Target* finished, bool biases, nn::Activation activation) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    nn::ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, {57, 48}}, "x");
    const nn::MlpOptions options{.hidden = 80, .activation = activation, .bias = biases};
    const ir::Value y = nn::mlp(nn::Scope(store, {.training = true, .target = traced}) / "mlp", x, options);
    ir::Values wrt = store.values();
    wrt.push_back(x);
    graph.results = ir::gradient(ir::sum_all(y * y), wrt);
    graph.results.push_back(y);
    EXPECT_EQ(finished != nullptr, text_of(graph, finished).find("tessera.dense_backward") != std::string::npos);
    return run(graph, finished, inputs_of(x, store));
  };
  for (const auto& [biases, activation] : kBlocks) {
    const std::vector<HostArray> want = results(nullptr, nullptr, biases, activation);
    expect_near(results(&target, &target, biases, activation), want, 4e-6);
    expect_near(results(&target, nullptr, biases, activation), want, 4e-6);
  }
}

TEST(Register, BranchesThatAreMoreAreLeftToLayers) {
  const Target target({&kAttention, &kDense});
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  nn::ParamStore store(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {10, 96}});
  const auto fits = [&](const nn::Context& context, const nn::AttentionOptions& attention, const nn::MlpOptions& mlp) {
    const nn::Scope scope(store, context);
    return nn::fused_attention_fits(scope, x, 2, 5, attention) && nn::fused_mlp_fits(scope, x, mlp);
  };
  const nn::MlpOptions mlp{.hidden = 384};
  const ir::Value key = graph.add_parameter({DType::kU32, {2}});
  const Target attention({&kAttention}), two({&kAttention, &kDense}, mesh::parse_mesh("fsdp=2", 2)),
      three({&kAttention, &kDense}, mesh::parse_mesh("fsdp=3", 3));
  EXPECT_TRUE(fits({.target = &target}, {}, mlp));
  EXPECT_FALSE(fits({}, {}, mlp));
  EXPECT_FALSE(fits({.target = &attention}, {}, mlp));
  EXPECT_TRUE(fits({.target = &two}, {}, mlp)) << "each device calls for its rows";
  EXPECT_FALSE(fits({.target = &three}, {}, mlp)) << "10 rows on 3 devices";
  EXPECT_FALSE(fits({.compute = DType::kBF16, .target = &target}, {}, mlp)) << "x is f32";
  EXPECT_FALSE(fits({.target = &target}, {.qk_norm = true}, mlp));
  EXPECT_EQ(fits({.target = &target}, {}, {.hidden = 4096}), !tiles_available()) << "weights that don't stay in a cache";
  EXPECT_FALSE(fits({.training = true, .key = key, .target = &target}, {.dropout = 0.1}, mlp));
  EXPECT_TRUE(fits({.training = false, .key = key, .target = &target}, {.dropout = 0.1}, mlp));
}

// Where features are split, a call would not have whole rows.
TEST(Register, OverATensorAxisNothingIsTaken) {
  const ir::Composite attention = nn::self_attention_composite({2, 5});
  const std::vector<TensorType> types = {{DType::kF32, {20, 24}}};
  EXPECT_TRUE(Target({&kAttention}).takes(attention, types));
  EXPECT_TRUE(Target({&kAttention}, mesh::parse_mesh("fsdp=2", 2)).takes(attention, types));
  EXPECT_FALSE(Target({&kAttention}, mesh::parse_mesh("fsdp=8", 8)).takes(attention, types)) << "4 examples on 8 devices";
  EXPECT_FALSE(Target({&kAttention}, mesh::parse_mesh("tensor=2", 2)).takes(attention, types));
  EXPECT_FALSE(Target({}).takes(attention, types));
}

// Two scans with stacks of the same type, which must not become one array, and their gradients.
TEST(Register, StacksThatAreFilledNeedNoZeros) {
  ASSERT_TRUE(has(kUnwritten));
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
  const Target only({&kUnwritten});
  const std::string text = text_of(graph, &only);
  EXPECT_THAT(text, HasSubstr("stack = 1"));
  EXPECT_THAT(text, HasSubstr("() -> (tensor<3x256x128xf32>)"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("3x4xf32") != std::string::npos) {
      EXPECT_THAT(line, Not(HasSubstr("unwritten"))) << "a small stack is left to the compiler";
    }
  }
  const std::vector<HostArray> arguments = {formula("x", {256, 128}), formula("small", {4})};
  expect_near(run(graph, &only, arguments), run(graph, nullptr, arguments), 1e-6);
}

// What a call says when its arrays are these.
std::string refusal(const Entry& function, const std::vector<TensorType>& operands, const std::vector<TensorType>& results,
                    const ir::AttrDict& attributes) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  ir::Values values;
  std::vector<HostArray> arguments;
  for (const TensorType& type : operands) {
    values.push_back(graph.add_parameter(type));
    arguments.push_back(formula("x", type.dims));
  }
  graph.results = ir::ffi_call(call_target(function.name), values, results, attributes);
  registered();
  try {
    tessera::testing::run_graph(graph, arguments, quick());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TensorType f32(Dims dims) { return {DType::kF32, std::move(dims)}; }

TEST(Register, WrongShapesAreRefusedByTheKernel) {
  const Entry &attention = kAttention.functions[0], &self = kAttention.functions[2], &convolution = kConvolution.functions[0],
              &max_pool = kMaxPool.functions[0], &pool_gradient = kMaxPool.functions[1];
  const TensorType q = f32({2, 5, 3, 12}), k = f32({2, 5, 4, 12}), x = f32({2, 9, 8, 3});
  EXPECT_EQ(refusal(attention, {q, q, q}, {q}, {}), "");
  EXPECT_THAT(refusal(attention, {q, k, k}, {q}, {}), HasSubstr("tessera.attention: its arrays"));
  EXPECT_NE(refusal(attention, {q, q}, {q}, {}), "");
  EXPECT_NE(refusal(attention, {q, q, q}, {q, q}, {}), "");
  EXPECT_NE(refusal(attention, {q, q, {DType::kF64, q.dims}}, {q}, {}), "") << "another type";

  const ir::AttrDict heads = ir::encode(ir::SelfAttention{.heads = 3, .tokens = 5});
  EXPECT_EQ(refusal(self, {f32({10, 36})}, {f32({10, 12})}, heads), "");
  EXPECT_NE(refusal(self, {f32({10, 36})}, {f32({10, 12})}, {}), "") << "no attributes";
  EXPECT_NE(refusal(self, {f32({11, 36})}, {f32({11, 12})}, heads), "") << "no whole examples";
  EXPECT_NE(refusal(self, {f32({10, 36})}, {f32({10, 13})}, heads), "");

  const ir::AttrDict window = ir::encode(ir::Window{3, 2, 1}), none = ir::encode(ir::Window{0, 2, 1});
  const TensorType kernel = f32({3, 3, 3, 6});
  EXPECT_EQ(refusal(convolution, {x, kernel}, {f32({2, 5, 4, 6})}, window), "");
  EXPECT_NE(refusal(convolution, {x, kernel}, {f32({2, 5, 4, 3})}, window), "");
  EXPECT_NE(refusal(convolution, {x, kernel}, {f32({2, 4, 4, 6})}, window), "");
  EXPECT_NE(refusal(convolution, {x}, {f32({2, 5, 4, 6})}, window), "");
  EXPECT_EQ(refusal(max_pool, {x}, {f32({2, 5, 4, 3})}, window), "");
  EXPECT_NE(refusal(max_pool, {x}, {f32({2, 4, 4, 3})}, window), "");
  EXPECT_NE(refusal(max_pool, {x}, {f32({2, 5, 4, 3})}, none), "");
  EXPECT_EQ(refusal(pool_gradient, {x, f32({2, 5, 4, 3})}, {x}, window), "");
  EXPECT_NE(refusal(pool_gradient, {x, f32({2, 5, 4, 3})}, {f32({2, 9, 8, 4})}, window), "");
}

TEST(Register, ACallOfADenseLayerThatLacksAnArrayIsRefused) {
  const TensorType x = f32({4, 8}), kernel = f32({8, 8}), bias = f32({8});
  const auto call = [&](const std::vector<TensorType>& operands, ir::DenseInput input) {
    return refusal(kDense.functions[0], operands, {x}, ir::encode(ir::DenseLayer{input}));
  };
  using ir::DenseInput;
  EXPECT_EQ(call({x, kernel, bias}, DenseInput::kPlain), "");
  EXPECT_EQ(call({x, kernel, bias, x}, DenseInput::kPlain), "");
  EXPECT_EQ(call({x, kernel, bias, bias, bias}, DenseInput::kNorm), "");
  EXPECT_NE(call({x, kernel, bias, bias}, DenseInput::kNorm), "");
  EXPECT_NE(call({x, kernel}, DenseInput::kPlain), "");
  EXPECT_NE(call({x, kernel, bias}, static_cast<DenseInput>(4)), "");
  EXPECT_NE(call({x, kernel, x}, DenseInput::kGelu), "");
  EXPECT_NE(call({x, kernel, bias, bias}, DenseInput::kPlain), "") << "a residual of another size";

  const auto gradient = [&](const std::vector<TensorType>& operands, const std::vector<TensorType>& results, DenseInput input) {
    return refusal(kDense.functions[1], operands, results, ir::encode(ir::DenseLayer{input}));
  };
  EXPECT_EQ(gradient({x, x, kernel}, {x, kernel, bias}, DenseInput::kGelu), "");
  EXPECT_EQ(gradient({x, x, kernel, bias, bias, x}, {x, kernel, bias, bias, bias}, DenseInput::kNorm), "");
  EXPECT_NE(gradient({x, x, kernel, bias, bias}, {x, kernel, bias}, DenseInput::kNorm), "");
  EXPECT_NE(gradient({x, x, kernel}, {x, kernel, x}, DenseInput::kPlain), "");
}

}  // namespace
}  // namespace tessera::host
