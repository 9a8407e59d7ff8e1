#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/rng.h"
#include "data/order/order.h"

namespace tessera::data {
namespace {

// Stretches of 1 .. 9 samples.
std::vector<int64_t> uneven(int64_t n) {
  std::vector<int64_t> first;
  Rng rng(3);
  for (int64_t at = 0; at < n; at += 1 + static_cast<int64_t>(rng.below(9))) first.push_back(at);
  return first;
}

TEST(WindowShuffle, EveryEpochHoldsEverySampleOnce) {
  for (const int64_t n : {1, 7, 64, 1000}) {
    for (const int64_t lanes : {1, 3, 7}) {
      if (lanes > n) continue;
      for (const int64_t window : {1, 5, 2000}) {
        const WindowShuffle order(n, uneven(n), 7, lanes, window);
        std::vector<std::set<int64_t>> seen(3);
        for (int64_t lane = 0; lane < lanes; ++lane) {
          for (uint64_t i = 0, epoch = 0;; ++i) {
            const Position at = order.at({lane, i});
            ASSERT_TRUE(at.epoch == epoch || at.epoch == epoch + 1);
            if ((epoch = at.epoch) == 3) break;
            ASSERT_TRUE(at.sample >= 0 && at.sample < n);
            EXPECT_TRUE(seen[at.epoch].insert(at.sample).second);
          }
        }
        for (const auto& epoch : seen) EXPECT_EQ(epoch.size(), static_cast<size_t>(n)) << n << ' ' << lanes << ' ' << window;
      }
    }
  }
}

TEST(WindowShuffle, EpochsAndSeedsDiffer) {
  const auto first = [](uint64_t seed, uint64_t from) {
    const WindowShuffle order(500, uneven(500), seed, 2, 40);
    std::vector<int64_t> samples;
    for (uint64_t i = 0; i < 50; ++i) samples.push_back(order.at({0, from + i}).sample);
    return samples;
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(1, 250));
  EXPECT_NE(first(1, 0), first(2, 0));
}

// The order is part of what a checkpoint means: it may never change.
TEST(WindowShuffle, IsTheSameForEver) {
  const WindowShuffle order(1000, even_stretches(1000, 50), 0, 4, 100);
  std::vector<int64_t> samples;
  for (uint64_t i = 0; i < 8; ++i) samples.push_back(order.at({1, i}).sample);
  EXPECT_EQ(samples, (std::vector<int64_t>{93, 72, 78, 741, 54, 739, 51, 705}));
}

// A window's samples come from few stretches, each of which is met in no other window but at its ends.
TEST(WindowShuffle, ReadsStretchesInARow) {
  constexpr int64_t kSamples = 100'000, kStretch = 128, kWindow = 1024, kLanes = 8;
  const WindowShuffle order(kSamples, even_stretches(kSamples, kStretch), 5, kLanes, kWindow);
  int64_t visits = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    for (int64_t start = 0; start < kSamples / kLanes; start += kWindow) {
      std::set<int64_t> stretches;
      for (int64_t i = start; i < std::min(start + kWindow, kSamples / kLanes); ++i) {
        stretches.insert(order.at({lane, static_cast<uint64_t>(i)}).sample / kStretch);
      }
      visits += static_cast<int64_t>(stretches.size());
    }
  }
  // Every visit reads a run of neighbours; all but its first sample are sequential.
  EXPECT_GT(1.0 - static_cast<double>(visits) / kSamples, 0.98);
}

TEST(WindowShuffle, ReplacementsVisitEveryOtherSampleOfTheLane) {
  const WindowShuffle order(60, uneven(60), 3, 2, 7);
  for (uint64_t position = 0; position < 60; ++position) {
    std::set<int64_t> seen = {order.at({1, position}).sample};
    for (uint64_t attempt = 1; attempt < order.reach({}); ++attempt) {
      const Position at = order.replacement({1, position}, attempt);
      EXPECT_EQ(at.epoch, position / 30);
      EXPECT_TRUE(seen.insert(at.sample).second);
    }
    EXPECT_EQ(seen.size(), 30u);
  }
}

// How far apart neighbours of the source land: a window mixes what is in it evenly.
TEST(WindowShuffle, IsEvenInsideAWindow) {
  constexpr int64_t kSamples = 64, kDraws = 20'000;
  std::vector<double> hits(kSamples * kSamples);
  const WindowShuffle order(kSamples, even_stretches(kSamples, 8), 11, 1, kSamples);
  for (uint64_t epoch = 0; epoch < kDraws; ++epoch) {
    for (uint64_t i = 0; i < kSamples; i += 9) {
      hits[i * kSamples + static_cast<uint64_t>(order.at({0, epoch * kSamples + i}).sample)] += 1;
    }
  }
  for (uint64_t i = 0; i < kSamples; i += 9) {
    double chi = 0;
    const double expected = static_cast<double>(kDraws) / kSamples;
    for (uint64_t s = 0; s < kSamples; ++s) chi += std::pow(hits[i * kSamples + s] - expected, 2) / expected;
    EXPECT_LT(chi, 63 + 4 * std::sqrt(2 * 63.0)) << i;  // four deviations of chi-square with 63 degrees of freedom
  }
}

}  // namespace
}  // namespace tessera::data
