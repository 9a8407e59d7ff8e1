// Layers as they are written for GPUs: they mean what they mean elsewhere, and so do their gradients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ir/functions.h"
#include "ir/grad.h"
#include "ir/program/gpu_target.h"
#include "ir/program/program.h"
#include "nn/max_pool.h"
#include "nn/norm/batch_norm.h"
#include "nn/norm/layer_norm.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

using ir::Value;
using ir::Values;
using ::testing::HasSubstr;
using testing::HostArray;
using ::testing::Not;
using Layer = std::function<Value(const Scope&, const Values&)>;

struct Traced {
  ir::Graph graph;
  std::vector<HostArray> arguments;
};

// The layer's result, what it moves its buffers to, and the gradients of its inputs and parameters under a sum with weights.
// Parameters and buffers are given by formula from their names.
void trace(Traced& out, const Layer& layer, const std::vector<HostArray>& inputs, const ir::Target* target) {
  const ir::GraphScope graph_scope(out.graph);
  ParamStore store(out.graph);
  Values x;
  for (const HostArray& input : inputs) x.push_back(out.graph.add_parameter(input.type));
  const Scope scope(store, {.training = true, .target = target});
  const Value y = layer(scope / "layer", x);
  const Value weights =
      ir::reshape(ir::sin(ir::convert(ir::iota({DType::kI32, {element_count(y.dims())}}, 0), DType::kF32)), y.dims());
  out.graph.results = {y};
  for (const BufferUpdate& update : store.updates()) out.graph.results.push_back(update.value);
  for (size_t i = 0; i < store.specs().size(); ++i) {
    if (store.specs()[i].trained) x.push_back(out.graph.parameters()[inputs.size() + i]);
  }
  for (const Value dx : ir::gradient(ir::sum_all(y * weights), x)) out.graph.results.push_back(dx);
  out.arguments = inputs;
  for (const ParamSpec& spec : store.specs()) {
    out.arguments.push_back(
        testing::f32_array(spec.type.dims, testing::formula_array(spec.name, element_count(spec.type.dims))));
  }
}

std::vector<std::vector<float>> results_of(const Layer& layer, const std::vector<HostArray>& inputs, const ir::Target* target) {
  Traced traced;
  trace(traced, layer, inputs, target);
  std::vector<std::vector<float>> out;
  for (const HostArray& result : testing::run_graph(traced.graph, traced.arguments, testing::quick_compile(), target))
    out.push_back(result.floats());
  return out;
}

std::string text_of(const Layer& layer, const std::vector<HostArray>& inputs, const ir::Target* target) {
  Traced traced;
  trace(traced, layer, inputs, target);
  return ir::program_text(traced.graph, {}, target);
}

// Each result is off by so many roundings of the largest number at most.
void expect_same(const Layer& layer, const std::vector<HostArray>& inputs, int64_t roundings,
                 float rounding = std::numeric_limits<float>::epsilon()) {
  const ir::GpuTarget gpus;
  ASSERT_NE(text_of(layer, inputs, &gpus), text_of(layer, inputs, nullptr)) << "or there is nothing to compare";
  const auto ours = results_of(layer, inputs, &gpus), plain = results_of(layer, inputs, nullptr);
  ASSERT_EQ(ours.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    float largest = 0;
    for (const float number : plain[i]) largest = std::max(largest, std::abs(number));
    const float most = largest * static_cast<float>(roundings) * rounding;
    ASSERT_EQ(ours[i].size(), plain[i].size());
    for (size_t j = 0; j < plain[i].size(); ++j) ASSERT_NEAR(ours[i][j], plain[i][j], most) << "result " << i << ", " << j;
  }
}

// The same of bf16, where both round at different places: a few times.
void expect_same_in_bf16(const Layer& layer, const std::vector<HostArray>& inputs) {
  const Layer low = [&](const Scope& scope, Values v) {
    for (Value& x : v) x = ir::convert(x, DType::kBF16);
    const Value y = layer(scope, v);
    EXPECT_EQ(y.dtype(), DType::kBF16);
    return ir::convert(y, DType::kF32);
  };
  expect_same(low, inputs, 4, 1.0F / 256);
}

HostArray image(const char* name, const Dims& dims, float scale = 1, float offset = 0) {
  std::vector<float> numbers = testing::formula_array(name, element_count(dims));
  for (float& number : numbers) number = number * scale + offset;
  return testing::f32_array(dims, numbers);
}

TEST(GpuLayers, LayerNormsMeanTheSame) {
  const HostArray x = image("x", {6, 24}, 3, 1);
  for (const bool bias : {true, false}) {
    expect_same([=](const Scope& s, const Values& v) { return layer_norm(s, v[0], 1e-6, bias); }, {x}, 24 * 6);
    expect_same_in_bf16([=](const Scope& s, const Values& v) { return layer_norm(s, v[0], 1e-6, bias); }, {x});
  }
  expect_same([](const Scope& s, const Values& v) { return layer_norm(s, v[0]); }, {image("x", {2, 3, 5, 8})}, 30 * 8);
}

TEST(GpuLayers, BatchNormsMeanTheSame) {
  const Dims dims = {3, 4, 5, 6};
  const HostArray x = image("x", dims), residual = image("residual", dims);
  for (const bool relu : {false, true}) {
    const BatchNormOptions options{.relu = relu};
    const Layer norm = [=](const Scope& s, const Values& v) { return batch_norm(s, v[0], options); };
    const Layer sum = [=](const Scope& s, const Values& v) {
      BatchNormOptions added = options;
      added.residual = v[1];
      return batch_norm(s, v[0], added);
    };
    // Sums of as many numbers as there are rows, in any order.
    expect_same(norm, {x}, 60 * 4);
    expect_same(sum, {x, residual}, 60 * 4);
    expect_same_in_bf16(norm, {x});
    expect_same_in_bf16(sum, {x, residual});
  }
}

// One pass over numbers that are far from 0 needs a number near their mean: the running one.
TEST(GpuLayers, VariancesFarFromZeroAreOfTheNumbersNotOfTheirRounding) {
  constexpr float kMean = 3000, kDeviation = 0.25;
  std::vector<float> x(4096);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = kMean + kDeviation * static_cast<float>(std::sin(static_cast<double>(i)));
    sum += x[i];
  }
  const double mean = sum / static_cast<double>(x.size());
  for (const float number : x) squares += (number - mean) * (number - mean);
  const double variance = squares / static_cast<double>(x.size() - 1);

  const ir::GpuTarget gpus;
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const Value images = graph.add_parameter({DType::kF32, {64, 8, 8, 1}});
  batch_norm(Scope(store, {.training = true, .target = &gpus}) / "bn", images, {.momentum = 1});
  std::vector<HostArray> arguments = {testing::f32_array({64, 8, 8, 1}, x)};
  for (const ParamSpec& spec : store.specs())
    arguments.push_back(testing::f32_array(spec.type.dims, {spec.name == "bn/running_mean" ? kMean + kDeviation : 1}));
  for (const BufferUpdate& update : store.updates()) graph.results.push_back(update.value);
  std::vector<float> moved;
  for (const HostArray& result : testing::run_graph(graph, arguments, testing::quick_compile(), &gpus))
    moved.push_back(result.floats()[0]);
  ASSERT_EQ(moved.size(), 3u);
  EXPECT_NEAR(moved[0], mean, 1e-7 * mean);
  EXPECT_NEAR(moved[1], variance, 1e-4 * variance);
}

// Many numbers of a window are equal: the first of them gets the cotangent.
TEST(GpuLayers, MaxPoolsHaveTheSameGradient) {
  const ir::GpuTarget gpus;
  for (const auto& [window, stride, padding] : {std::tuple{3, 2, 1}, {2, 2, 0}, {3, 1, 1}, {3, 3, 0}, {2, 3, 1}, {1, 2, 0}}) {
    for (const Dims& dims : {Dims{2, 9, 7, 3}, {1, 6, 8, 2}, {1, 4, 4, 1}}) {
      const Layer pool = [w = window, s = stride, p = padding](const Scope& scope, const Values& v) {
        return max_pool(scope, v[0], w, s, p);
      };
      std::vector<float> steps = testing::formula_array("x", element_count(dims));
      for (float& number : steps) number = std::round(number * 2);
      const std::vector<HostArray> x = {testing::f32_array(dims, steps)};
      EXPECT_THAT(text_of(pool, x, nullptr), HasSubstr("select_and_scatter"));
      EXPECT_THAT(text_of(pool, x, &gpus), Not(HasSubstr("select_and_scatter")));
      const auto ours = results_of(pool, x, &gpus), plain = results_of(pool, x, nullptr);
      ASSERT_EQ(ours.size(), 2u);
      EXPECT_EQ(ours[0], plain[0]);
      for (size_t i = 0; i < plain[1].size(); ++i) EXPECT_NEAR(ours[1][i], plain[1][i], 1e-6) << window << stride << i;
    }
  }
}

TEST(GpuLayers, MaxPoolsOfLargeWindowsAreLeftToTheCompiler) {
  const ir::GpuTarget gpus;
  const Layer pool = [](const Scope& scope, const Values& v) { return max_pool(scope, v[0], ir::kMaxPoolWindow + 1, 1, 0); };
  EXPECT_THAT(text_of(pool, {image("x", {1, 20, 20, 1})}, &gpus), HasSubstr("select_and_scatter"));
}

}  // namespace
}  // namespace tessera::nn
