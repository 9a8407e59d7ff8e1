// Depth: rates of stochastic depth, what the blocks of an encoder drop, and where they are a loop.

#include "nn/blocks/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/grad.h"
#include "ir/program/gpu_target.h"
#include "ir/program/program.h"
#include "ir/random.h"
#include "nn/blocks/encoder_blocks.h"
#include "support/formula.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Three blocks with their gradient.
std::string text_of_blocks(const ir::RematPolicy& policy, const ir::Target* target, DType dtype = DType::kF32) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value x = graph.add_parameter({dtype, {4, 8}});
  const BlockOptions depth{.count = 3, .drop_path = {}, .remat = policy};
  EncoderBlockOptions options;
  options.mlp.hidden = 8;
  const Context context{.training = true, .compute = dtype, .target = target};
  const ir::Value y = encoder_blocks(Scope(store, context) / "blocks", x, 2, depth, options);
  graph.results = ir::gradient(ir::sum_all(ir::convert(y, DType::kF32)), {x});
  return ir::program_text(graph, {}, target);
}

std::string text_of_blocks(ir::RematPolicy::Kind kind, const ir::Target* target, DType dtype = DType::kF32) {
  return text_of_blocks(ir::RematPolicy{.kind = kind, .names = block_products()}, target, dtype);
}

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The numbers of such programs: tests/ir, Emit.AnUnrolledScanSaysTheSameWithoutALoop.
TEST(EncoderBlocks, AreWrittenOutForGpusUnlessNothingIsKept) {
  using Kind = ir::RematPolicy::Kind;
  constexpr const char *kLoop = "stablehlo.while", *kBarrier = "stablehlo.optimization_barrier";
  const ir::GpuTarget gpus;
  const std::string dots = text_of_blocks(Kind::kSaveNamed, &gpus), all = text_of_blocks(Kind::kSaveAll, &gpus);
  EXPECT_THAT(dots, Not(HasSubstr(kLoop)));
  EXPECT_THAT(all, Not(HasSubstr(kLoop)));
  constexpr int64_t kOfNorms = 3 * 2 * 2;  // two norms of a block keep mean and deviation each
  EXPECT_EQ(count_of(all, kBarrier), kOfNorms) << "nothing is computed again";
  EXPECT_GT(count_of(dots, kBarrier), 2 * kOfNorms);
  for (const Kind kind : {Kind::kSaveNamed, Kind::kSaveAll, Kind::kSaveNothing})
    EXPECT_THAT(text_of_blocks(kind, nullptr), HasSubstr(kLoop));
  EXPECT_THAT(text_of_blocks(Kind::kSaveNothing, &gpus), HasSubstr(kLoop));
}

TEST(EncoderBlocks, KeepAllOrTheirProductsAsTheTargetHasMemory) {
  using Kind = ir::RematPolicy::Kind;
  const ir::RematPolicy automatic{.kind = Kind::kSaveNamed, .names = block_products(), .automatic = true};
  const ir::GpuTarget large({}, {}, true), small;
  EXPECT_EQ(text_of_blocks(automatic, &large), text_of_blocks(Kind::kSaveAll, &large));
  EXPECT_EQ(text_of_blocks(automatic, &small), text_of_blocks(Kind::kSaveNamed, &small));
  EXPECT_EQ(text_of_blocks(automatic, nullptr), text_of_blocks(Kind::kSaveNamed, nullptr));
  EXPECT_NE(text_of_blocks(Kind::kSaveNamed, &large), text_of_blocks(Kind::kSaveAll, &large));
}

// Each block's result, the same again before its gradient, and the gradient.
TEST(EncoderBlocks, LeaveAttentionOnGpusToCudnnInBf16) {
  using Kind = ir::RematPolicy::Kind;
  const ir::GpuTarget gpus({}, [](const ir::AttentionSizes& sizes) { return sizes == ir::AttentionSizes{2, 2, 1, 8}; });
  const auto calls = [&](Kind kind, DType dtype) {
    const std::string text = text_of_blocks(kind, &gpus, dtype);
    std::pair<int, int> count;
    for (size_t at = text.find(ir::kCudnnAttention); at != std::string::npos; at = text.find(ir::kCudnnAttention, at + 1)) {
      ++(text.compare(at, 27, "__cudnn$fmhaSoftmaxBackward") == 0 ? count.second : count.first);
    }
    return count;
  };
  EXPECT_EQ(calls(Kind::kSaveNamed, DType::kBF16), (std::pair{6, 3}));
  EXPECT_EQ(calls(Kind::kSaveNamed, DType::kF32), (std::pair{0, 0}));
}

}  // namespace
}  // namespace tessera::nn
