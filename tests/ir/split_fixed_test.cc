// A program in two: what depends on its first parameters alone, and the rest.

#include "ir/passes/split_fixed.h"

#include <gmock/gmock.h>

#include "ir/ops.h"
#include "support/run_graph.h"

namespace tessera::ir {
namespace {

using tessera::testing::f32_array;
using tessera::testing::run_graph;
using ::testing::ElementsAre;

// What becomes of a graph of weights a [3], b [3], unused [1], and x [2, 3].
struct Traced {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();

  explicit Traced(const std::function<Values(Value a, Value b, Value x)>& body) {
    const GraphScope scope(*graph);
    const Value a = graph->add_parameter({DType::kF32, {3}}, "a"), b = graph->add_parameter({DType::kF32, {3}}, "b");
    graph->add_parameter({DType::kF32, {1}}, "unused");
    graph->results = body(a, b, graph->add_parameter({DType::kF32, {2, 3}}, "x"));
  }
  SplitGraph split() { return split_fixed(std::move(graph), 3); }
};

TEST(SplitFixed, WhatDependsOnTheFirstParametersAloneIsPrepared) {
  const auto body = [](Value a, Value b, Value x) -> Values {
    const Value both = exp(a + b) * 2.0;  // once
    return {x * both + a, sum(x, {0})};
  };
  const auto a = f32_array({3}, {1, 2, 3}), b = f32_array({3}, {0, -1, 1}), x = f32_array({2, 3}, {1, 0, 2, -1, 3, 1}),
             unused = f32_array({1}, {0});
  const auto want = run_graph(*Traced(body).graph, {a, b, unused, x});
  const SplitGraph split = Traced(body).split();
  EXPECT_THAT(split.kept, ElementsAre(0)) << "a is read beside what is prepared";
  ASSERT_NE(split.prepare, nullptr);
  ASSERT_EQ(split.prepare->results.size(), 1U);
  EXPECT_EQ(split.prepare->results[0].dims(), Dims({3})) << "not the broadcast of it";
  const auto prepared = run_graph(*split.prepare, {a, b, unused});
  const auto got = run_graph(*split.run, {a, prepared[0], x});
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].floats(), want[0].floats());
  EXPECT_EQ(got[1].floats(), want[1].floats());
}

TEST(SplitFixed, ConstantsAndViewsAreNotPrepared) {
  const SplitGraph split = Traced([](Value a, Value, Value x) -> Values {
                             return {x + reshape(a, {1, 3}) + constant_f32({3}, {1, 2, 3}) * 3.0};
                           }).split();
  EXPECT_EQ(split.prepare, nullptr);
  EXPECT_THAT(split.kept, ElementsAre(0));
  EXPECT_EQ(split.run->parameters().size(), 2U);
}

TEST(SplitFixed, AResultMayBeFixedItself) {
  const SplitGraph split = Traced([](Value a, Value b, Value) -> Values { return {a * b, b}; }).split();
  ASSERT_NE(split.prepare, nullptr);
  const auto prepared = run_graph(*split.prepare, {f32_array({3}, {1, 2, 3}), f32_array({3}, {2, 3, 4}), f32_array({1}, {0})});
  EXPECT_THAT(prepared[0].floats(), ElementsAre(2, 6, 12));
  EXPECT_THAT(split.kept, ElementsAre(1));
}

// A loop over x that reads a fixed value: the loop stays, the value is prepared.
TEST(SplitFixed, LoopsReadWhatIsPrepared) {
  const auto body = [](Value a, Value b, Value x) -> Values {
    const Value both = a * b;
    return while_loop(
        {x, constant(0, DType::kI32)}, [](const Values& c) { return compare(Compare::kLt, c[1], constant(3, DType::kI32)); },
        [&](const Values& c) -> Values {
          return {c[0] + both, c[1] + constant(1, DType::kI32)};
        });
  };
  const auto a = f32_array({3}, {1, 2, 3}), b = f32_array({3}, {2, 3, 4}), x = f32_array({2, 3}, {0, 0, 0, 1, 1, 1}),
             unused = f32_array({1}, {0});
  const SplitGraph split = Traced(body).split();
  ASSERT_NE(split.prepare, nullptr);
  const auto prepared = run_graph(*split.prepare, {a, b, unused});
  EXPECT_EQ(run_graph(*split.run, {prepared[0], x})[0].floats(), run_graph(*Traced(body).graph, {a, b, unused, x})[0].floats());
}

}  // namespace
}  // namespace tessera::ir
