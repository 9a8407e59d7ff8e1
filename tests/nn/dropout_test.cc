// Masks: off at evaluation, mean-preserving, a function of key, path and block.

#include "nn/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "ir/ops.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

using Body = std::function<ir::Values(const Scope&)>;

// The results of `body` in a scope with the key {seed, 0}.
std::vector<std::vector<float>> draw(const Body& body, uint32_t seed = 1, bool training = true) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value key = graph.add_parameter({DType::kU32, {2}});
  graph.results = body(Scope(store, {.training = training, .key = key}) / "site");
  std::vector<std::vector<float>> values;
  const auto out =
      testing::run_graph(graph, {testing::host_array<uint32_t>(DType::kU32, {2}, {seed, 0})}, testing::quick_compile());
  for (const testing::HostArray& array : out) values.push_back(array.floats());
  return values;
}

ir::Value ones(const Dims& dims) { return ir::constant(1, DType::kF32, dims); }

TEST(Dropout, KeepsTheMeanAndScalesWhatItKeeps) {
  const auto x = draw([](const Scope& s) -> ir::Values { return {dropout(s, ones({200, 200}), 0.3)}; })[0];
  double kept = 0;
  for (const float v : x) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.7f) < 1e-6f);
    kept += v != 0 ? 1 : 0;
  }
  EXPECT_NEAR(kept / 40000, 0.7, 4 * std::sqrt(0.21 / 40000));
}

TEST(Dropout, IsOffAtEvaluationWithoutAKeyAndAtRateZero) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {4}}), key = graph.add_parameter({DType::kU32, {2}});
  EXPECT_EQ(dropout(Scope(store, {.training = false, .key = key}), x, 0.5), x);
  EXPECT_EQ(dropout(Scope(store, {.training = true}), x, 0.5), x);
  EXPECT_EQ(dropout(Scope(store, {.training = true, .key = key}), x, 0), x);
  EXPECT_NE(dropout(Scope(store, {.training = true, .key = key}) / "a", x, 0.5), x);
  EXPECT_THROW(dropout(Scope(store, {}), x, 1), InternalError);
  EXPECT_THROW(dropout(Scope(store, {}), x, -0.1), InternalError);
}

TEST(Dropout, IsAFunctionOfKeyPathAndBlock) {
  const Body body = [](const Scope& s) -> ir::Values {
    const auto blocks =
        ir::scan(2, {}, {ir::iota({DType::kI32, {2}}, 0)}, [&](const ir::Values&, const ir::Values& xs) -> ir::ScanResult {
          return {{}, {dropout(s.in_scan(xs[0]), ones({64}), 0.5)}};
        });
    return {dropout(s / "a", ones({64}), 0.5), dropout(s / "a", ones({64}), 0.5), dropout(s / "b", ones({64}), 0.5),
            blocks.ys[0]};
  };
  const auto first = draw(body), again = draw(body), other = draw(body, 2);
  EXPECT_EQ(first, again);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_NE(first[0], first[2]);
  EXPECT_NE(first[0], other[0]);
  EXPECT_NE(std::vector<float>(first[3].begin(), first[3].begin() + 64),
            std::vector<float>(first[3].begin() + 64, first[3].end()));
}

TEST(DropPath, DropsWholeSamplesAndKeepsTheMean) {
  const int64_t batch = 4000, rows = 3;
  const auto x = draw([&](const Scope& s) -> ir::Values {
    return {drop_path(s, ones({batch * rows, 2}), batch, ir::constant(0.25)),
            drop_path(s, ones({batch * rows, 2}), batch, ir::constant(0))};
  });
  int64_t kept = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const auto begin = x[0].begin() + b * rows * 2;
    EXPECT_EQ(std::set<float>(begin, begin + rows * 2).size(), 1u);
    EXPECT_TRUE(*begin == 0 || std::abs(*begin - 4.0f / 3) < 1e-6f);
    kept += *begin != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(batch), 0.75, 4 * std::sqrt(0.1875 / static_cast<double>(batch)));
  EXPECT_EQ(x[1], std::vector<float>(static_cast<size_t>(batch * rows * 2), 1));
}

}  // namespace
}  // namespace tessera::nn
