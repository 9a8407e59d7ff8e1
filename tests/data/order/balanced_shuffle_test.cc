#include "data/order/balanced_shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/order/shuffle.h"

namespace tessera::data {
namespace {

// One of class 0, 10 of class 1, 101 of class 3, and 4 without a class; class 2 is empty.
std::vector<int32_t> uneven() {
  std::vector<int32_t> labels;
  for (int i = 0; i < 116; ++i) labels.push_back(i == 50 ? 0 : i % 11 == 3 && i < 110 ? 1 : i % 23 == 22 ? -1 : 3);
  return labels;
}

std::map<int32_t, int64_t> class_counts(const std::vector<int32_t>& labels, const Order& order, uint64_t positions) {
  std::map<int32_t, int64_t> counts;
  for (uint64_t i = 0; i < positions; ++i) ++counts[labels[static_cast<size_t>(order.at({0, i}).sample)]];
  return counts;
}

TEST(BalancedShuffle, EveryClassComesOnceInEveryBlock) {
  const std::vector<int32_t> labels = uneven();
  const BalancedShuffle order(labels, 1, 7);
  EXPECT_EQ(order.size(), 116);
  for (uint64_t block = 0; block < 200; ++block) {
    std::set<int32_t> seen;
    for (uint64_t i = 0; i < 3; ++i) seen.insert(labels[static_cast<size_t>(order.at({0, 3 * block + i}).sample)]);
    EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 3}));
  }
}

TEST(BalancedShuffle, EverySampleOfAClassComesBeforeAnyComesAgain) {
  const std::vector<int32_t> labels = uneven();
  for (const int64_t lanes : {1, 4}) {
    const BalancedShuffle order(labels, 1, 3, lanes);
    std::map<std::pair<int32_t, uint64_t>, std::set<int64_t>> seen;  // by class and epoch of the class
    for (uint64_t i = 0; i < 900; ++i) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const Position at = order.at({lane, i});
        EXPECT_TRUE(seen[std::pair(labels[static_cast<size_t>(at.sample)], at.epoch)].insert(at.sample).second);
      }
    }
    const auto of_class = [&](int32_t label) { return static_cast<size_t>(std::ranges::count(labels, label)); };
    for (const int32_t label : {0, 1, 3}) EXPECT_EQ((seen[std::pair(label, uint64_t{1})].size()), of_class(label)) << label;
  }
}

TEST(BalancedShuffle, PowerGoesFromTheDataToEqualClasses) {
  const std::vector<int32_t> labels = uneven();
  const int64_t n1 = std::ranges::count(labels, 1), n3 = std::ranges::count(labels, 3);
  // Power 0 is exact in blocks of all samples with a class.
  const auto all = static_cast<uint64_t>(1 + n1 + n3);
  EXPECT_EQ(class_counts(labels, BalancedShuffle(labels, 0, 1), 5 * all),
            (std::map<int32_t, int64_t>{{0, 5}, {1, 5 * n1}, {3, 5 * n3}}));
  const auto half = class_counts(labels, BalancedShuffle(labels, 0.5, 1), Mixture::kMaxBlock);
  const double sum = 1 + std::sqrt(n1) + std::sqrt(n3);
  EXPECT_NEAR(static_cast<double>(half.at(3)) / Mixture::kMaxBlock, std::sqrt(n3) / sum, 1.0 / Mixture::kMaxBlock);
  EXPECT_NEAR(static_cast<double>(half.at(0)) / Mixture::kMaxBlock, 1 / sum, 1.0 / Mixture::kMaxBlock);
}

TEST(BalancedShuffle, MoreClassesThanABlockOfAMixture) {
  std::vector<int32_t> labels(21'841 * 2);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 21'841);
  const BalancedShuffle order(labels, 1, 5);
  std::set<int64_t> seen;
  for (uint64_t i = 0; i < labels.size(); ++i) seen.insert(order.at({0, i}).sample);
  EXPECT_EQ(seen.size(), labels.size());
}

TEST(BalancedShuffle, ReplacementsVisitEveryOtherSampleOnceAndTheClassFirst) {
  const std::vector<int32_t> labels = uneven();
  const BalancedShuffle order(labels, 1, 3);
  for (uint64_t position = 0; position < 40; ++position) {
    const LanePlace place{0, position};
    const int64_t own = order.at(place).sample;
    const int32_t label = labels[static_cast<size_t>(own)];
    const auto size = static_cast<uint64_t>(std::ranges::count(labels, label));
    std::set<int64_t> seen = {own};
    ASSERT_EQ(order.reach(place), labels.size() - 4);
    for (uint64_t attempt = 1; attempt < order.reach(place); ++attempt) {
      const int64_t sample = order.replacement(place, attempt).sample;
      EXPECT_TRUE(seen.insert(sample).second) << position << ' ' << attempt;
      EXPECT_EQ(labels[static_cast<size_t>(sample)] == label, attempt < size);
      EXPECT_GE(labels[static_cast<size_t>(sample)], 0);
    }
  }
}

// The order is part of what a checkpoint means: it may never change.
TEST(BalancedShuffle, IsTheSameForEver) {
  const BalancedShuffle order(uneven(), 1, 0);
  std::vector<int64_t> first;
  for (uint64_t i = 0; i < 9; ++i) first.push_back(order.at({0, i}).sample);
  EXPECT_EQ(first, (std::vector<int64_t>{3, 50, 90, 80, 50, 107, 50, 8, 25}));
}

TEST(BalancedShuffle, IsAKindOfShuffle) {
  EXPECT_EQ(parse_shuffle("balanced").power, 1);
  EXPECT_EQ(parse_shuffle("balanced(power=0.5)").power, 0.5);
  EXPECT_THROW(parse_shuffle("balanced(power=2)"), Error);
  const auto fake = make_source("fake(images=30, classes=3)");
  const SampleOrder order = make_sample_order({{fake, 1}}, parse_shuffle("balanced"), 6, 0);
  const std::vector<int32_t> labels = *fake->labels();
  std::map<int32_t, int> counts;
  for (uint64_t i = 0; i < 30; ++i) ++counts[labels[static_cast<size_t>(order.at(i).sample)]];
  EXPECT_EQ(counts, (std::map<int32_t, int>{{0, 10}, {1, 10}, {2, 10}}));
  const auto many = make_source("fake(images=3000000000, classes=3)");
  EXPECT_THROW(make_sample_order({{many, 1}}, parse_shuffle("balanced"), 6, 0), Error);
}

}  // namespace
}  // namespace tessera::data
