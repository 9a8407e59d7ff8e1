// Layers by value, on the CPU plugin.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/functions.h"
#include "ir/grad.h"
#include "nn/blocks/attention.h"
#include "nn/blocks/attention_pool.h"
#include "nn/blocks/mlp.h"
#include "nn/conv.h"
#include "nn/dense.h"
#include "nn/norm/batch_norm.h"
#include "nn/norm/layer_norm.h"
#include "nn/norm/layer_scale.h"
#include "nn/patch_embed.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

using Layer = std::function<ir::Value(const Scope&, ir::Value)>;

// The layer's result for `x`, its parameters given by formula from their names; `specs` receives what it made.
std::vector<float> apply(const Layer& layer, const Dims& dims, const std::vector<float>& x, DType compute = DType::kF32,
                         std::vector<ParamSpec>* specs = nullptr) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value in = graph.add_parameter({DType::kF32, dims});
  graph.results = {ir::convert(layer(Scope(store, {.compute = compute}) / "layer", in), DType::kF32)};
  std::vector<testing::HostArray> arguments = {testing::f32_array(dims, x)};
  for (const ParamSpec& spec : store.specs()) {
    arguments.push_back(testing::f32_array(spec.type.dims, testing::formula_array(spec.name, element_count(spec.type.dims))));
  }
  if (specs != nullptr) *specs = store.specs();
  return testing::run_graph(graph, arguments, testing::quick_compile())[0].floats();
}

std::vector<float> parameter(const std::string& name, int64_t count) { return testing::formula_array("layer/" + name, count); }

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(Dense, IsAProductAndABias) {
  const std::vector<float> x = testing::formula_array("x", 6), w = parameter("kernel", 12), b = parameter("bias", 4);
  std::vector<float> want(8);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t o = 0; o < 4; ++o) {
      double sum = b[o];
      for (size_t i = 0; i < 3; ++i) sum += static_cast<double>(x[r * 3 + i]) * w[i * 4 + o];
      want[r * 4 + o] = static_cast<float>(sum);
    }
  }
  const Layer with_bias = [](const Scope& s, ir::Value v) { return dense(s, v, 4); };
  expect_near(apply(with_bias, {2, 3}, x), want, 1e-6);
  expect_near(apply(with_bias, {2, 3}, x, DType::kBF16), want, 0.02);
  std::vector<ParamSpec> specs;
  for (size_t i = 0; i < want.size(); ++i) want[i] -= b[i % 4];
  expect_near(
      apply([](const Scope& s, ir::Value v) { return dense(s, v, 4, {.bias = false}); }, {2, 3}, x, DType::kF32, &specs), want,
      1e-6);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, "layer/kernel");
}

TEST(PatchEmbed, IsTheConvolutionWithoutOverlap) {
  const std::vector<float> images = testing::formula_array("images", 2 * 8 * 12 * 3);
  const std::vector<float> patches =
      apply([](const Scope& s, ir::Value x) { return patch_embed(s, x, 5, 4); }, {2, 8, 12, 3}, images);
  // The same flat kernel and name: [4, 4, 3, 5] of the convolution is [48, 5] here.
  const std::vector<float> convolved =
      apply([](const Scope& s, ir::Value x) { return conv(s, x, 5, 4, {.stride = 4}); }, {2, 8, 12, 3}, images);
  expect_near(patches, convolved, 1e-5);
  EXPECT_THROW(apply([](const Scope& s, ir::Value x) { return patch_embed(s, x, 5, 5); }, {2, 8, 12, 3}, images),
               InternalError);
}

TEST(Conv, PadsStridesAndGroups) {
  const std::vector<float> x = testing::formula_array("x", 5 * 5 * 4), w = parameter("kernel", 3 * 3 * 2 * 6);
  std::vector<float> want(3 * 3 * 6);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      for (int64_t o = 0; o < 6; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < 18; ++k) {
          const int64_t dy = k / 6, dx = k / 2 % 3, channel = k % 2, y = row * 2 + dy - 1, z = column * 2 + dx - 1;
          if (y < 0 || y > 4 || z < 0 || z > 4) continue;
          sum += static_cast<double>(x[static_cast<size_t>((y * 5 + z) * 4 + o / 3 * 2 + channel)]) *
                 w[static_cast<size_t>(k * 6 + o)];
        }
        want[static_cast<size_t>((row * 3 + column) * 6 + o)] = static_cast<float>(sum);
      }
    }
  }
  const ConvOptions options{.stride = 2, .padding = 1, .groups = 2, .bias = false};
  expect_near(apply([&](const Scope& s, ir::Value v) { return conv(s, v, 6, 3, options); }, {1, 5, 5, 4}, x), want, 1e-5);
}

TEST(LayerNorm, StandardisesInF32AndKeepsTheType) {
  const std::vector<float> x = {1, 2, 3, 6, 100, 100, 100, 100}, s = parameter("scale", 4), b = parameter("bias", 4);
  std::vector<float> want(8);
  for (size_t i = 0; i < 4; ++i) {
    want[i] = static_cast<float>((x[i] - 3) / std::sqrt(3.5 + 0.1) * s[i] + b[i]);
    want[4 + i] = b[i];  // no variance
  }
  expect_near(apply([](const Scope& c, ir::Value v) { return layer_norm(c, v, 0.1); }, {2, 4}, x), want, 1e-6);
  const Layer low = [](const Scope& c, ir::Value v) {
    const ir::Value y = layer_norm(c, ir::convert(v, DType::kBF16), 0.1);
    EXPECT_EQ(y.dtype(), DType::kBF16);
    return y;
  };
  expect_near(apply(low, {2, 4}, x), want, 0.01);
}

// torch.nn.BatchNorm2d: what is normalised has the batch's variance, what is kept the unbiased one.
TEST(BatchNorm, MovesItsStatisticsAsTorch) {
  const std::vector<float> x = {1, 2, 3, 6};
  const auto run = [&](bool training) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    ParamStore store(graph);
    const ir::Value in = graph.add_parameter({DType::kF32, {2, 1, 2, 1}});
    graph.results = {batch_norm(Scope(store, {.training = training}) / "bn", in, {.momentum = 0.1, .epsilon = 0})};
    for (const BufferUpdate& update : store.updates()) graph.results.push_back(update.value);
    std::map<std::string, float> values = {
        {"bn/scale", 2}, {"bn/bias", 1}, {"bn/running_mean", 10}, {"bn/running_var", 4}, {"bn/num_batches_tracked", 7}};
    std::vector<testing::HostArray> arguments = {testing::f32_array(in.dims(), x)};
    for (const ParamSpec& spec : store.specs()) arguments.push_back(testing::f32_array(spec.type.dims, {values.at(spec.name)}));
    std::vector<std::vector<float>> out;
    for (const testing::HostArray& array : testing::run_graph(graph, arguments, testing::quick_compile()))
      out.push_back(array.floats());
    return out;
  };
  const auto trained = run(true), used = run(false);
  ASSERT_EQ(trained.size(), 4u);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(trained[0][i], (x[i] - 3) / std::sqrt(3.5) * 2 + 1, 1e-5);
    EXPECT_NEAR(used[0][i], (x[i] - 10) / 2 * 2 + 1, 1e-5);
  }
  EXPECT_NEAR(trained[1][0], 0.9 * 10 + 0.1 * 3, 1e-5);           // running_mean
  EXPECT_NEAR(trained[2][0], 0.9 * 4 + 0.1 * 3.5 * 4 / 3, 1e-5);  // running_var
  EXPECT_EQ(trained[3][0], 8);                                    // num_batches_tracked
  EXPECT_EQ(used.size(), 1u);
}

// timm's SplitBatchNorm2d, of tools/references/models/split_norm.py.
TEST(BatchNorm, SplitsTheBatchAsTimm) {
  std::ifstream file(testing::source_path("tests/references/split_norm.json"));
  const nlohmann::json want = nlohmann::json::parse(file);
  const Dims dims = {6, 2, 3, 4};
  // timm's name: bn/aux_bn/0/scale -> aux_bn.0.weight.
  const auto timm = [](const std::string& name) {
    std::string out = name.substr(3);
    std::ranges::replace(out, '/', '.');
    return out.ends_with("scale") ? out.substr(0, out.size() - 5) + "weight" : out;
  };
  for (const bool training : {true, false}) {
    ir::Graph graph;
    const ir::GraphScope graph_scope(graph);
    ParamStore store(graph);
    const ir::Value x = graph.add_parameter({DType::kF32, dims}), dy = graph.add_parameter({DType::kF32, dims});
    const Scope scope(store, {.training = training});
    const ir::Value y = batch_norm(scope / "bn", x, {.momentum = 0.3, .splits = 3});
    std::vector<std::string> names = {training ? "y" : "eval"};
    graph.results = {y};
    ir::Values wrt = {x};
    std::vector<testing::HostArray> arguments = {testing::f32_array(dims, testing::formula_array("x", 144)),
                                                 testing::f32_array(dims, testing::formula_array("dy", 144))};
    std::vector<std::string> of = {"dx"};
    for (size_t i = 0; i < store.specs().size(); ++i) {
      const ParamSpec& spec = store.specs()[i];
      const std::string name = timm(spec.name);
      const bool counts = name.ends_with("num_batches_tracked");
      arguments.push_back(testing::f32_array(
          spec.type.dims, counts ? std::vector<float>{0} : testing::formula_parameter(name, spec.type.dims)));
      if (name.ends_with("weight") || name.ends_with("bias")) wrt.push_back(store.values()[i]), of.push_back("d/" + name);
    }
    EXPECT_EQ(store.specs().size(), 15u);
    if (training) {
      for (const ir::Value gradient : ir::vjp({y}, {dy}, wrt)) graph.results.push_back(gradient);
      names.insert(names.end(), of.begin(), of.end());
      for (const BufferUpdate& update : store.updates()) {
        graph.results.push_back(update.value);
        names.push_back("after/" + timm(update.name));
      }
    }
    const auto got = testing::run_graph(graph, arguments, testing::quick_compile());
    ASSERT_EQ(got.size(), training ? 17u : 1u);
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(names[i]);
      expect_near(got[i].floats(), want.at(names[i]).get<std::vector<float>>(), 2e-5);
    }
  }
}

TEST(LayerScale, Multiplies) {
  const std::vector<float> gamma = parameter("gamma", 2);
  std::vector<ParamSpec> specs;
  expect_near(
      apply([](const Scope& c, ir::Value v) { return layer_scale(c, v, 0.1); }, {2, 2}, {1, 2, 3, 4}, DType::kF32, &specs),
      {gamma[0], 2 * gamma[1], 3 * gamma[0], 4 * gamma[1]}, 1e-6);
  EXPECT_EQ(specs[0].init, init::constant(0.1));
}

TEST(Attention, OfOneHeadIsTheFormula) {
  // Two images of three tokens, width 2.
  const std::vector<float> x = testing::formula_array("x", 12, 2), w = testing::formula_array("layer/qkv/kernel", 12),
                           p = testing::formula_array("layer/proj/kernel", 4);
  std::vector<float> want(12);
  for (size_t image = 0; image < 2; ++image) {
    double qkv[3][6] = {};
    for (size_t t = 0; t < 3; ++t) {
      for (size_t j = 0; j < 6; ++j) {
        for (size_t i = 0; i < 2; ++i) qkv[t][j] += static_cast<double>(x[(image * 3 + t) * 2 + i]) * w[i * 6 + j];
      }
    }
    for (size_t t = 0; t < 3; ++t) {
      double scores[3], total = 0, mixed[2] = {};
      for (size_t u = 0; u < 3; ++u) {
        scores[u] = std::exp((qkv[t][0] * qkv[u][2] + qkv[t][1] * qkv[u][3]) / std::sqrt(2.0));
        total += scores[u];
      }
      for (size_t u = 0; u < 3; ++u) {
        for (size_t i = 0; i < 2; ++i) mixed[i] += scores[u] / total * qkv[u][4 + i];
      }
      for (size_t o = 0; o < 2; ++o) want[(image * 3 + t) * 2 + o] = static_cast<float>(mixed[0] * p[o] + mixed[1] * p[2 + o]);
    }
  }
  AttentionOptions options;
  options.qkv_bias = options.proj_bias = false;
  const Layer layer = [&](const Scope& s, ir::Value v) { return attention(s, v, 2, options); };
  expect_near(apply(layer, {6, 2}, x), want, 1e-5);
  expect_near(apply(layer, {6, 2}, x, DType::kBF16), want, 0.03);
}

TEST(Attention, HeadsSplitAndMerge) {
  // Column c of the product is c: kernel zero, bias counting.
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  store.provide("kv/kernel", ir::zeros({DType::kF32, {3, 16}}));
  store.provide("kv/bias", ir::iota({DType::kF32, {16}}, 0));
  const ir::Value x = ir::zeros({DType::kF32, {2 * 3, 3}});
  const ir::Values parts = project_heads(Scope(store, {}) / "kv", x, 2, {8, 2, 2, {}});
  EXPECT_EQ(parts[1].dims(), (Dims{2, 3, 2, 4}));
  graph.results = {parts[1], merge_heads(parts[0])};
  const auto out = testing::run_graph(graph, {}, testing::quick_compile());
  // Image 1, token 2, head 1, element 3 of the second part: column (1 * 2 + 1) * 4 + 3.
  EXPECT_EQ(out[0].floats()[((1 * 3 + 2) * 2 + 1) * 4 + 3], 15);
  EXPECT_EQ(out[1].floats()[5 * 8 + 7], 7);
}

TEST(AttentionPool, OfEqualTokensDoesNotDependOnTheirNumber) {
  AttentionPoolOptions options;
  options.heads = 2;
  options.mlp.hidden = 8;
  const Layer pool = [&](const Scope& s, ir::Value v) { return attention_pool(s, v, 2, options); };
  const std::vector<float> image0 = testing::formula_array("a", 4), image1 = testing::formula_array("b", 4);
  const auto repeated = [&](int64_t tokens) {
    std::vector<float> x;
    for (const auto& image : {image0, image1}) {
      for (int64_t i = 0; i < tokens; ++i) x.insert(x.end(), image.begin(), image.end());
    }
    return x;
  };
  const std::vector<float> one = apply(pool, {2, 4}, repeated(1)), three = apply(pool, {6, 4}, repeated(3));
  EXPECT_EQ(one.size(), 8u);
  expect_near(three, one, 1e-5);
  EXPECT_NE(one[0], one[4]);
}

TEST(Mlp, AppliesTheActivationBetweenTwoLayers) {
  const std::vector<float> x = testing::formula_array("x", 3);
  const auto by_hand = [&](double (*gelu)(double)) {
    const std::vector<float> w1 = parameter("fc1/kernel", 15), b1 = parameter("fc1/bias", 5), w2 = parameter("fc2/kernel", 15),
                             b2 = parameter("fc2/bias", 3);
    std::vector<float> out(b2);
    for (size_t h = 0; h < 5; ++h) {
      double sum = b1[h];
      for (size_t i = 0; i < 3; ++i) sum += static_cast<double>(x[i]) * w1[i * 5 + h];
      for (size_t o = 0; o < 3; ++o) out[o] += static_cast<float>(gelu(sum) * w2[h * 3 + o]);
    }
    return out;
  };
  const auto layer = [](Activation activation) {
    return [activation](const Scope& s, ir::Value v) { return mlp(s, v, {.hidden = 5, .activation = activation}); };
  };
  expect_near(apply(layer(Activation::kGelu), {1, 3}, x),
              by_hand([](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }), 1e-6);
  expect_near(apply(layer(Activation::kGeluTanh), {1, 3}, x),
              by_hand([](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }),
              1e-6);
}

}  // namespace
}  // namespace tessera::nn
