// Numbers that are arguments of a program.

#include "ir/numbers.h"

#include <gmock/gmock.h>

#include "ir/functions.h"
#include "ir/program/program.h"
#include "support/run_graph.h"

namespace tessera::ir {
namespace {

using ::testing::ElementsAre;

struct Traced {
  Graph graph;
  std::vector<float> numbers;
};

// a x + b + sum over three steps of a (c + 1), where the second term is computed in a loop.
std::unique_ptr<Traced> traced(double a, double b, double c) {
  auto out = std::make_unique<Traced>();
  const Value x = out->graph.add_parameter({DType::kF32, {2}});
  const GraphScope scope(out->graph);
  const NumbersScope numbers(out->graph);
  const Values carried = scan(3, {zeros({DType::kF32, {2}})}, {}, [&](const Values& carry, const Values&) {
                           const Value next = constant(c, DType::kF32, {2}) + 1.0;
                           return ScanResult{{carry[0] + a * next}, {}};
                         }).carry;
  out->graph.results = {x * a + b + carried[0]};
  out->numbers = numbers.values();
  return out;
}

TEST(Numbers, AreParametersWhereverTheyAreUsed) {
  const auto one = traced(3, 5, 7), other = traced(4, 6, 8);
  EXPECT_THAT(one->numbers, ElementsAre(7, 3, 5));
  EXPECT_THAT(other->numbers, ElementsAre(8, 4, 6));
  EXPECT_EQ(program_text(one->graph), program_text(other->graph));
  const auto result = testing::run_graph(one->graph, {testing::f32_array({2}, {1, 10}), testing::f32_array({}, {7}),
                                                      testing::f32_array({}, {3}), testing::f32_array({}, {5})});
  EXPECT_THAT(result[0].floats(), ElementsAre(3 + 5 + 72, 30 + 5 + 72));
}

TEST(Numbers, EqualOnesAreOneAndThoseOfFormulasStay) {
  EXPECT_THAT(traced(3, 3, 0.5)->numbers, ElementsAre(3));
  // Or a rate of 1e-3 would make another program, for Adam's 1 - b2.
  EXPECT_THAT(traced(0.001, 1 - 0.999, 0.5)->numbers, ElementsAre(0.001f, 0.001f));
  Graph graph;
  const Value x = graph.add_parameter({DType::kF32, {}});
  const GraphScope scope(graph);
  const NumbersScope numbers(graph);
  constant(3, DType::kI32);
  constant(1.0 / 0.0);
  graph.results = {maximum(1.0 - x * 0.5, constant(0)) * 2.0};
  EXPECT_TRUE(numbers.values().empty());
}

}  // namespace
}  // namespace tessera::ir
