#include "data/order/order.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tessera::data {
namespace {

TEST(FullShuffle, EveryEpochHoldsEverySampleOnce) {
  for (const int64_t n : {1, 2, 3, 17, 64, 1000}) {
    const FullShuffle order(n, 7);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
        const Position at = order.at({0, epoch * static_cast<uint64_t>(n) + i});
        EXPECT_EQ(at.epoch, epoch);
        EXPECT_TRUE(at.sample >= 0 && at.sample < n);
        seen.insert(at.sample);
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(n));
    }
  }
}

std::vector<int64_t> samples(uint64_t seed, uint64_t from) {
  std::vector<int64_t> result;
  for (uint64_t i = 0; i < 50; ++i) result.push_back(FullShuffle(50, seed).at({0, from + i}).sample);
  return result;
}

TEST(FullShuffle, DiffersBetweenEpochsAndSeeds) {
  EXPECT_NE(samples(1, 0), samples(1, 50));
  EXPECT_NE(samples(1, 0), samples(2, 0));
  EXPECT_EQ(samples(1, 0), samples(1, 0));
}

// The order is part of what a checkpoint means: it may never change.
TEST(FullShuffle, IsTheSameForEver) {
  std::vector<int64_t> first;
  for (uint64_t i = 0; i < 8; ++i) first.push_back(FullShuffle(1000, 0).at({0, i}).sample);
  EXPECT_EQ(first, (std::vector<int64_t>{505, 242, 365, 723, 323, 910, 11, 100}));
}

TEST(FullShuffle, ReplacementsVisitEveryOtherSampleOnce) {
  for (const int64_t n : {1, 2, 3, 10, 33}) {
    const FullShuffle order(n, 3);
    for (uint64_t position = 0; position < static_cast<uint64_t>(2 * n); ++position) {
      std::set<int64_t> seen = {order.at({0, position}).sample};
      for (uint64_t attempt = 1; attempt < static_cast<uint64_t>(n); ++attempt) {
        const Position at = order.replacement({0, position}, attempt);
        EXPECT_EQ(at.epoch, order.at({0, position}).epoch);
        EXPECT_TRUE(seen.insert(at.sample).second) << n << ' ' << position << ' ' << attempt;
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(n));
    }
  }
}

}  // namespace
}  // namespace tessera::data
