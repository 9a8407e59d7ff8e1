#include "pages/board/runs/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::board {
namespace {

using ::testing::ElementsAre;

TEST(Series, AFewPointsStayAsTheyAre) {
  Series series;
  for (int64_t step = 1; step <= 5; ++step) series.add({step, 10.0 * static_cast<double>(step)});
  EXPECT_THAT(series.points(-1, 5), ElementsAre(Point{1, 10}, Point{2, 20}, Point{3, 30}, Point{4, 40}, Point{5, 50}));
  EXPECT_THAT(series.points(3, 100), ElementsAre(Point{4, 40}, Point{5, 50}));
  EXPECT_THAT(series.points(5, 100), ElementsAre());
}

TEST(Series, ThinnedKeepsSpikesAndTheEnds) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 10000; ++step) points.push_back({step, std::sin(static_cast<double>(step))});
  points[3333].value = 50;
  points[7777].value = -50;
  const std::vector<Point> few = thinned(points, 101);
  EXPECT_LE(few.size(), 102u);
  EXPECT_GT(few.size(), 80u);
  EXPECT_TRUE(std::ranges::is_sorted(few, {}, &Point::step));
  EXPECT_TRUE(std::ranges::count(few, points[3333]) == 1 && std::ranges::count(few, points[7777]) == 1);
  EXPECT_EQ(few.back(), points.back());
}

TEST(Series, WhatIsNotFiniteIsASpike) {
  std::vector<Point> points;
  for (int64_t step = 0; step < 1000; ++step) points.push_back({step, 1});
  points[500].value = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Point> few = thinned(points, 20);
  EXPECT_EQ(std::ranges::count_if(few, [](const Point& point) { return std::isnan(point.value); }), 1);
}

TEST(Series, MemoryIsBounded) {
  Series series;
  for (int64_t step = 0; step < 200'000; ++step) series.add({step, step == 12345 ? 7.0 : 0.0});
  EXPECT_LE(series.all().size(), 16384u);
  EXPECT_EQ(std::ranges::count(series.all(), Point{12345, 7}), 1);
  EXPECT_EQ(series.last().step, 199'999);
}

}  // namespace
}  // namespace tessera::board
