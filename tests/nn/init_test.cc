// What initialisers draw: moments, limits, and independence of other parameters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/random.h"
#include "nn/scope.h"
#include "support/run_graph.h"

namespace tessera::nn {
namespace {

std::vector<std::vector<float>> draw(const std::vector<ParamSpec>& specs, uint64_t seed = 7) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  for (const ParamSpec& spec : specs) graph.results.push_back(initial_value(spec, ir::make_key(seed)));
  std::vector<std::vector<float>> values;
  for (const testing::HostArray& array : testing::run_graph(graph, {}, testing::quick_compile()))
    values.push_back(array.floats());
  return values;
}

ParamSpec spec_of(const Dims& dims, const Init& init, bool stacked = false) {
  return {"w", {DType::kF32, dims}, init, stacked};
}

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments_of(const std::vector<float>& x) {
  Moments m;
  for (const float v : x) m.mean += v / static_cast<double>(x.size());
  for (const float v : x) m.std += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  m.std = std::sqrt(m.std);
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  m.low = *low, m.high = *high;
  return m;
}

TEST(Init, HasTheStatedMoments) {
  // 65,536 draws: the mean is within 4 / 256 standard deviations, the standard deviation within 2 %.
  const double cut = 0.87962566103423978;
  const struct {
    ParamSpec spec;
    double std, limit;  // limit: of |value|, 0 for none
  } cases[] = {
      {spec_of({256, 256}, init::normal(0.02)), 0.02, 0},
      {spec_of({256, 256}, init::truncated_normal(0.1)), 0.1 * cut, 0.2},
      {spec_of({256, 256}, init::uniform(0.3)), 0.3 / std::sqrt(3.0), 0.3},
      {spec_of({128, 512}, init::lecun_normal()), std::sqrt(1.0 / 128), 2 * std::sqrt(1.0 / 128) / cut},
      {spec_of({3, 3, 32, 228}, init::lecun_normal()), std::sqrt(1.0 / 288), 2 * std::sqrt(1.0 / 288) / cut},
      {spec_of({4, 64, 256}, init::lecun_normal(), true), std::sqrt(1.0 / 64), 2 * std::sqrt(1.0 / 64) / cut},
      {spec_of({128, 512}, init::xavier_uniform()), std::sqrt(2.0 / 640), std::sqrt(6.0 / 640)},
      {spec_of({128, 384}, init::xavier_uniform(3)), std::sqrt(2.0 / 256), std::sqrt(6.0 / 256)},
      {spec_of({4, 64, 256}, init::xavier_uniform(), true), std::sqrt(2.0 / 320), std::sqrt(6.0 / 320)},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(describe(c.spec.init) + " " + to_string(c.spec.type.dims));
    const Moments m = moments_of(draw({c.spec})[0]);
    EXPECT_NEAR(m.mean, 0, 4 * c.std / 256);
    EXPECT_NEAR(m.std, c.std, 0.02 * c.std);
    if (c.limit > 0) {
      EXPECT_LE(std::max(-m.low, m.high), c.limit * (1 + 1e-6));
      EXPECT_GE(std::min(-m.low, m.high), c.limit * 0.97);
    } else {
      EXPECT_GT(m.high, 3.5 * c.std);
    }
  }
}

TEST(Init, ConstantsAreConstant) {
  const auto values = draw({spec_of({5}, init::zeros()), spec_of({5}, init::ones()), spec_of({2, 2}, init::constant(-6.9))});
  EXPECT_EQ(values[0], std::vector<float>(5, 0));
  EXPECT_EQ(values[1], std::vector<float>(5, 1));
  EXPECT_EQ(values[2], std::vector<float>(4, -6.9f));
}

TEST(Init, DependsOnNameAndSeedAlone) {
  ParamSpec a = spec_of({64}, init::normal(1)), b = a;
  b.name = "v";
  const auto alone = draw({a}), pair = draw({b, a});
  EXPECT_EQ(alone[0], pair[1]);
  EXPECT_NE(alone[0], pair[0]);
  EXPECT_NE(alone[0], draw({a}, 8)[0]);
}

TEST(Init, BlocksOfAStackDiffer) {
  const auto x = draw({spec_of({2, 8, 8}, init::normal(1), true)})[0];
  EXPECT_NE(std::vector<float>(x.begin(), x.begin() + 64), std::vector<float>(x.begin() + 64, x.end()));
}

TEST(Init, IsDescribed) {
  EXPECT_EQ(describe(init::zeros()), "zeros");
  EXPECT_EQ(describe(init::ones()), "ones");
  EXPECT_EQ(describe(init::constant(0.5)), "constant(0.5)");
  EXPECT_EQ(describe(init::normal(0.02)), "normal(0.02)");
  EXPECT_EQ(describe(init::truncated_normal(1)), "truncated_normal(1)");
  EXPECT_EQ(describe(init::uniform(0.25)), "uniform(0.25)");
  EXPECT_EQ(describe(init::lecun_normal()), "lecun_normal");
  EXPECT_EQ(describe(init::xavier_uniform()), "xavier_uniform");
  EXPECT_EQ(describe(init::xavier_uniform(3)), "xavier_uniform(parts=3)");
}

TEST(Init, FansNeedTwoDimensions) {
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  EXPECT_THROW(initial_value(spec_of({4}, init::lecun_normal()), ir::make_key(0)), InternalError);
  EXPECT_THROW(initial_value(spec_of({4, 4}, init::xavier_uniform(), true), ir::make_key(0)), InternalError);
}

}  // namespace
}  // namespace tessera::nn
