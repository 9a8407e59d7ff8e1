#include "data/order/repeated.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

#include "data/order/shuffle.h"

namespace tessera::data {
namespace {

TEST(Repeated, EverySampleComesInARowByOtherDraws) {
  const auto plain = std::make_shared<FullShuffle>(10, 7, 2);
  const Repeated order(plain, 3);
  EXPECT_EQ(order.size(), 10);
  std::set<std::pair<int64_t, uint64_t>> draws;
  for (int64_t lane = 0; lane < 2; ++lane) {
    for (uint64_t p = 0; p < 60; ++p) {
      const Position at = order.at({lane, p}), inner = plain->at({lane, p / 3});
      EXPECT_EQ(at.sample, inner.sample);
      EXPECT_EQ(at.epoch / 3, inner.epoch);
      EXPECT_TRUE(draws.emplace(at.sample, at.epoch).second) << "the same draws twice";
    }
  }
  EXPECT_EQ(draws.size(), 120u);  // 40 samples of 4 epochs, three times each
}

TEST(Repeated, ReplacementsAreThoseOfTheOrder) {
  const auto plain = std::make_shared<FullShuffle>(10, 7);
  const Repeated order(plain, 3);
  EXPECT_EQ(order.reach({0, 5}), plain->reach({0, 1}));
  for (uint64_t attempt = 1; attempt < 10; ++attempt)
    EXPECT_EQ(order.replacement({0, 5}, attempt).sample, plain->replacement({0, 1}, attempt).sample);
}

TEST(Repeated, OnceIsTheOrderItself) {
  const auto plain = std::make_shared<FullShuffle>(5, 1);
  const Repeated order(plain, 1);
  for (uint64_t p = 0; p < 20; ++p) {
    EXPECT_EQ(order.at({0, p}).sample, plain->at({0, p}).sample);
    EXPECT_EQ(order.at({0, p}).epoch, plain->at({0, p}).epoch);
  }
}

}  // namespace
}  // namespace tessera::data
