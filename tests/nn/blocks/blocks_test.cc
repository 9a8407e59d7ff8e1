// Depth: rates of stochastic depth, and what the blocks of an encoder drop.

#include "nn/blocks/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/random.h"
#include "nn/blocks/encoder_blocks.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(LinearRates, GrowWithDepth) {
  EXPECT_THAT(linear_rates(0.3, 4), ElementsAre(0, DoubleEq(0.1), DoubleEq(0.2), DoubleEq(0.3)));
  EXPECT_THAT(linear_rates(0.3, 1), ElementsAre(0));
}

// The share of samples that leave the blocks as they came: all of their branches were dropped.
double untouched(const std::vector<double>& rates, int64_t batch) {
  constexpr int64_t kWidth = 4, kTokens = 2;
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {batch * kTokens, kWidth}});
  const BlockOptions depth{.count = static_cast<int64_t>(rates.size()), .drop_path = rates, .remat = {}};
  EncoderBlockOptions options;
  options.mlp.hidden = kWidth;
  graph.results = {
      encoder_blocks(Scope(store, {.training = true, .key = ir::make_key(1)}) / "blocks", x, batch, depth, options)};
  const std::vector<float> in = testing::formula_array("x", batch * kTokens * kWidth);
  std::vector<testing::HostArray> arguments = {testing::f32_array(x.dims(), in)};
  for (const ParamSpec& spec : store.specs()) {
    arguments.push_back(testing::f32_array(spec.type.dims, testing::formula_array(spec.name, element_count(spec.type.dims))));
  }
  const std::vector<float> out = testing::run_graph(graph, arguments, testing::quick_compile())[0].floats();
  double same = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const auto first = b * kTokens * kWidth, last = first + kTokens * kWidth;
    same += std::equal(in.begin() + first, in.begin() + last, out.begin() + first) ? 1 : 0;
  }
  return same / static_cast<double>(batch);
}

double deviation(double share, int64_t batch) { return std::sqrt(share * (1 - share) / static_cast<double>(batch)); }

TEST(EncoderBlocks, DropTheBranchesOfABlockApart) {
  EXPECT_NEAR(untouched({0.5}, 2000), 0.25, 4 * deviation(0.25, 2000)) << "dropped together it would be a half";
}

TEST(EncoderBlocks, HaveARateEach) {
  EXPECT_NEAR(untouched({0.9, 0.7}, 2000), 0.81 * 0.49, 4 * deviation(0.81 * 0.49, 2000));
  EXPECT_EQ(untouched({0.9, 0}, 100), 0);
}

}  // namespace
}  // namespace tessera::nn
