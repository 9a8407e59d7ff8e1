// Masks: off at evaluation, mean-preserving, a function of key, path and block.

#include "nn/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"
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

// Squares around what was drawn, as timm's drop_block_2d makes them: max_pool2d(size, stride=1, padding=size // 2), for an even
// size without the first row and column.
std::vector<float> squares(const std::vector<float>& drawn, int64_t batch, int64_t side, int64_t size) {
  std::vector<float> out(drawn.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        if (drawn[static_cast<size_t>((b * side + y) * side + x)] == 0) continue;
        for (int64_t v = y - size / 2; v <= y + (size - 1) / 2; ++v) {
          for (int64_t u = x - size / 2; u <= x + (size - 1) / 2; ++u) {
            if (v >= 0 && u >= 0 && v < side && u < side) out[static_cast<size_t>((b * side + v) * side + u)] = 1;
          }
        }
      }
    }
  }
  return out;
}

TEST(DropBlock, DropsSquaresOfAllChannelsAndKeepsTheMeanOfTheBatch) {
  const int64_t batch = 200, side = 9, channels = 2;
  for (const int64_t size : {int64_t{3}, int64_t{4}, int64_t{20}}) {
    const DropBlockOptions options{.rate = 0.1, .size = size, .gamma_scale = 0.5};
    const int64_t used = std::min(size, side);
    const auto of = [](int64_t n) { return static_cast<double>(n); };
    const double gamma = 0.5 * 0.1 * of(side * side) / of(used * used) / of((side - used + 1) * (side - used + 1));
    const auto x = draw([&](const Scope& s) -> ir::Values {
      return {drop_block(s, ones({batch, side, side, channels}), options),
              ir::convert(ir::bernoulli(s.key(), gamma, {batch, side, side, 1}), DType::kF32)};
    });
    const std::vector<float> dropped = squares(x[1], batch, side, used);
    double kept = 0, sum = 0;
    for (const float d : dropped) kept += 1 - d;
    ASSERT_LT(kept, of(batch * side * side));
    const double factor = of(batch * side * side) / kept;
    for (size_t i = 0; i < x[0].size(); ++i) {
      const double want = dropped[i / channels] != 0 ? 0 : factor;
      ASSERT_NEAR(x[0][i], want, 1e-5) << i << " of size " << size;
      sum += x[0][i];
    }
    EXPECT_NEAR(sum / of(batch * side * side * channels), 1, 1e-5);
  }
}

TEST(DropBlock, IsOffAtEvaluationAndAtRateZero) {
  ir::Graph graph;
  const ir::GraphScope graph_scope(graph);
  ParamStore store(graph);
  const ir::Value x = graph.add_parameter({DType::kF32, {2, 5, 5, 3}}), key = graph.add_parameter({DType::kU32, {2}});
  EXPECT_EQ(drop_block(Scope(store, {.training = false, .key = key}), x, {.rate = 0.5}), x);
  EXPECT_EQ(drop_block(Scope(store, {.training = true, .key = key}), x, {.rate = 0}), x);
  EXPECT_NE(drop_block(Scope(store, {.training = true, .key = key}) / "a", x, {.rate = 0.5}), x);
}

}  // namespace
}  // namespace tessera::nn
