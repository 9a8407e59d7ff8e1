#include "train/step/histograms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "support/run_graph.h"

namespace tessera::train {
namespace {

std::vector<float> row_of(const Dims& dims, const std::vector<float>& values) {
  return testing::run({testing::f32_array(dims, values)},
                      [](const ir::Values& x) { return ir::Values{histogram_row(x[0])}; })[0]
      .floats();
}

TEST(Histogram, CountsWhatLiesBelowEachEdge) {
  Rng rng(3);
  std::vector<float> values;
  for (int i = 0; i < 6 * 50 * 7; ++i) values.push_back(static_cast<float>(rng.normal()));
  const auto [least, greatest] = std::ranges::minmax(values);
  double sum = 0, squares = 0;
  for (const float x : values) sum += x, squares += static_cast<double>(x) * x;
  for (const Dims& dims : {Dims{2100}, Dims{6, 350}, Dims{6, 50, 7}}) {
    const std::vector<float> row = row_of(dims, values);
    ASSERT_EQ(row.size(), static_cast<size_t>(kHistogramColumns));
    EXPECT_EQ(row[0], least);
    EXPECT_EQ(row[1], greatest);
    EXPECT_NEAR(row[2], sum, 1e-2);
    EXPECT_NEAR(row[3], squares, 1e-3 * squares);
    for (int64_t part = 1; part < kHistogramParts; ++part) {
      const double edge = least + (static_cast<double>(greatest) - least) * static_cast<double>(part) / kHistogramParts;
      const auto below = std::ranges::count_if(values, [&](float x) { return x < edge; });
      EXPECT_NEAR(row[static_cast<size_t>(3 + part)], static_cast<double>(below), 1) << part;  // the edge is rounded
    }
  }
}

TEST(Histogram, OfEqualNumbersIsOnePart) {
  for (const Dims& dims : {Dims{}, Dims{5}}) {
    const std::vector<float> row = row_of(dims, std::vector<float>(static_cast<size_t>(element_count(dims)), 0.25F));
    EXPECT_EQ(row[0], 0.25F);
    EXPECT_EQ(row[1], 0.25F);
    EXPECT_TRUE(std::ranges::all_of(row.begin() + 4, row.end(), [](float below) { return below == 0; }));
  }
}

}  // namespace
}  // namespace tessera::train
