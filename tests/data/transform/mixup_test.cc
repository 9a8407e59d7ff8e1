#include "image/augment/mixup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "data/transform/pp.h"

namespace tessera::data {
namespace {

constexpr int kDraws = 200'000;

// Chi-square of draws in [0, 1] against a distribution function, in 20 equally likely cells, must be as small as it would be
// 9,999 times out of 10,000.
void expect_follows(const std::function<double()>& draw, const std::function<double(double)>& cdf) {
  std::vector<double> cells(20);
  for (int i = 0; i < kDraws; ++i) ++cells[std::min<size_t>(19, static_cast<size_t>(cdf(draw()) * 20))];
  double chi = 0;
  const double expected = kDraws / 20.0;
  for (const double count : cells) chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 50.8);
}

TEST(Rng, BetaFollowsItsDistribution) {
  Rng rng(1);
  expect_follows([&] { return rng.beta(1, 1); }, [](double x) { return x; });
  expect_follows([&] { return rng.beta(0.5, 0.5); }, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); });
  expect_follows([&] { return rng.beta(2, 2); }, [](double x) { return x * x * (3 - 2 * x); });
  expect_follows([&] { return rng.beta(2, 1); }, [](double x) { return x * x; });
}

image::MixupOptions options(double mixup, double cutmix, const std::string& mode = "batch") {
  image::MixupOptions o;
  o.mixup = mixup;
  o.cutmix = cutmix;
  o.mode = mode;
  return o;
}

bool same(const image::MixedRow& a, const image::MixedRow& b) {
  return a.own == b.own && a.label == b.label && std::equal(std::begin(a.box), std::end(a.box), std::begin(b.box));
}

TEST(Mixup, RowsShareDrawsByMode) {
  const auto rows = [](const std::string& mode, int64_t step) {
    const image::Mixup mixup(options(0.8, 1, mode), 32, 24, "data.mixup");
    std::vector<image::MixedRow> drawn;
    for (int64_t row = 0; row < 8; ++row) drawn.push_back(mixup.draw(5, step, row, 8));
    return drawn;
  };
  for (int64_t step = 0; step < 20; ++step) {
    for (const image::MixedRow& row : rows("batch", step)) EXPECT_TRUE(same(row, rows("batch", step)[0]));
    const auto pairs = rows("pair", step);
    for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(same(pairs[i], pairs[7 - i]));
    EXPECT_FALSE(same(pairs[0], pairs[1]));
    EXPECT_FALSE(same(rows("elem", step)[0], rows("elem", step)[7]));
    EXPECT_FALSE(same(rows("batch", step)[0], rows("batch", step + 1)[0]));
  }
}

TEST(Mixup, LambdaFollowsBeta) {
  const image::Mixup mixup(options(0.5, 0, "elem"), 8, 8, "");
  int64_t row = 0;
  expect_follows([&] { return mixup.draw(1, 0, row++, kDraws).own; },
                 [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); });
  image::MixupOptions bv = options(2, 0);
  bv.style = "big_vision";
  const image::Mixup big_vision(bv, 8, 8, "");
  int64_t step = 0;
  // max(a, 1 - a): F(x) - F(1 - x).
  const auto cdf = [](double x) { return x * x * (3 - 2 * x); };
  expect_follows([&] { return big_vision.draw(1, step++, 0, 16).own; }, [&](double x) { return cdf(x) - cdf(1 - x); });
}

TEST(Mixup, SwitchesAndSpares) {
  image::MixupOptions o = options(0.8, 1, "elem");
  o.prob = 0.7;
  o.switch_prob = 0.25;
  const image::Mixup mixup(o, 200, 200, "");
  int spared = 0, cut = 0;
  for (int64_t row = 0; row < kDraws; ++row) {
    const image::MixedRow drawn = mixup.draw(3, 0, row, kDraws);
    const bool box = drawn.box[2] > drawn.box[0];
    cut += box;
    spared += !box && drawn.own == 1;
    // What is cut out is what the label loses; a box takes no part in mixing of all pixels.
    const float area = (drawn.box[2] - drawn.box[0]) * (drawn.box[3] - drawn.box[1]);
    if (box) {
      EXPECT_EQ(drawn.own, 1);
      EXPECT_NEAR(drawn.label, 1 - area / 40'000, 1e-6);
    } else {
      EXPECT_EQ(drawn.own, drawn.label);
    }
  }
  EXPECT_NEAR(spared, kDraws * 0.3, 5 * std::sqrt(kDraws * 0.3 * 0.7) + kDraws * 0.003);  // and the rare empty box
  EXPECT_NEAR(cut, kDraws * 0.7 * 0.25, 5 * std::sqrt(kDraws * 0.175) + kDraws * 0.003);
}

TEST(Mixup, BoxesOfMinMaxAreUniform) {
  image::MixupOptions o = options(0, 0, "elem");
  o.cutmix_minmax = {0.25, 0.75};
  const image::Mixup mixup(o, 40, 80, "");
  int64_t row = 0;
  std::vector<double> heights(20);
  for (int i = 0; i < kDraws; ++i) {
    const image::MixedRow drawn = mixup.draw(1, 0, row++, kDraws);
    const float h = drawn.box[2] - drawn.box[0], w = drawn.box[3] - drawn.box[1];
    ASSERT_TRUE(h >= 10 && h < 30 && w >= 20 && w < 60);
    ASSERT_TRUE(drawn.box[0] >= 0 && drawn.box[2] <= 40 && drawn.box[1] >= 0 && drawn.box[3] <= 80);
    ++heights[static_cast<size_t>(h) - 10];
  }
  for (const double count : heights) EXPECT_NEAR(count, kDraws / 20.0, 5 * std::sqrt(kDraws / 20.0));
}

TEST(Mixup, MistakesAreExplained) {
  const auto fails = [](auto change) {
    image::MixupOptions o = options(0.8, 0);
    change(o);
    EXPECT_THROW(image::Mixup(o, 8, 8, "data.mixup"), Error);
  };
  fails([](image::MixupOptions& o) { o.style = "tim"; });
  fails([](image::MixupOptions& o) { o.mode = "half"; });
  fails([](image::MixupOptions& o) { o.mixup = -1; });
  fails([](image::MixupOptions& o) { o.prob = 1.5; });
  fails([](image::MixupOptions& o) { o.cutmix_minmax = {0.5}; });
  fails([](image::MixupOptions& o) { o.style = "big_vision", o.cutmix = 1; });
}

// Boxes of random_erasing: how often, how many, how large, where.
TEST(RandomErasing, DrawsAsTimm) {
  constexpr int kSide = 100;
  const Pp pp("decode | resize(100) | normalise | random_erasing(0.4, mode=rand, count=3)", PpUse::kTrain);
  ASSERT_EQ(pp.erasing(), (Erasing{Erasing::Fill::kRand, 3}));
  int any = 0;
  std::vector<int> by_count(4);
  double area = 0, colour = 0, colour_squares = 0;
  int singles = 0;
  for (uint64_t sample = 0; sample < kDraws; ++sample) {
    float boxes[3 * kEraseValues];
    pp.draw_erasing({1, 2, sample}, boxes);
    size_t count = 0;
    for (const float* box : {boxes, boxes + kEraseValues, boxes + 2 * kEraseValues}) {
      if (box[2] <= box[0]) continue;
      ++count;
      ASSERT_TRUE(box[0] >= 0 && box[1] >= 0 && box[2] <= kSide && box[3] <= kSide);
      colour += static_cast<double>(box[4]);
      colour_squares += static_cast<double>(box[4]) * static_cast<double>(box[4]);
    }
    any += count > 0;
    ++by_count[count];
    if (count == 1) ++singles, area += static_cast<double>((boxes[2] - boxes[0]) * (boxes[3] - boxes[1]));
  }
  const auto near = [](double got, double p, double n) { EXPECT_NEAR(got, p * n, 5 * std::sqrt(n * p * (1 - p))); };
  near(any, 0.4, kDraws);
  for (size_t n = 1; n <= 3; ++n) near(by_count[n], 0.4 / 3, kDraws);
  // Uniform from 2 to 33.3 % of the pixels; the very long ones don't fit and are drawn again.
  EXPECT_NEAR(area / singles, (0.02 + 1.0 / 3) / 2 * kSide * kSide, 30);
  const double n = by_count[1] + 2.0 * by_count[2] + 3.0 * by_count[3];
  EXPECT_NEAR(colour / n, 0, 0.02);
  EXPECT_NEAR(colour_squares / n, 1, 0.02);
}

TEST(RandomErasing, StandsLast) {
  const auto chain = [](const char* text) { return Pp(text, PpUse::kTrain, "data.pp"); };
  EXPECT_THROW(chain("decode | resize(8) | random_erasing | normalise"), Error);
  EXPECT_THROW(chain("decode | resize(8) | normalise | random_erasing | value_range"), Error);
  EXPECT_THROW(chain("decode | resize(8) | normalise | random_erasing(p=2)"), Error);
  EXPECT_THROW(chain("decode | resize(8) | normalise | random_erasing(mode=pixels)"), Error);
  EXPECT_THROW(chain("decode | resize(8) | normalise | random_erasing(count=[3, 1])"), Error);
  EXPECT_THROW(Pp("decode | resize(8) | normalise | random_erasing", PpUse::kEval), Error);
}

}  // namespace
}  // namespace tessera::data
