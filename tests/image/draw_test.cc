// What the random ops draw: a million draws each against formulas, or against as many of timm's and TensorFlow's own
// (tools/references/images/crop_draws.py, tensorflow_crop_draws.py). No picture is touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numbers>
#include <set>

#include "base/error.h"
#include "image/augment/big_vision.h"
#include "image/augment/color_jitter.h"
#include "image/augment/crop_boxes.h"
#include "image/augment/timm.h"
#include "image/chi_square.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::image {
namespace {

using testing::expect_distribution;
using testing::expect_same_distribution;

constexpr uint64_t kDraws = 1'000'000;

// Boxes counted as crop_tally.py counts them.
struct Tally {
  std::vector<double> sizes = std::vector<double>(64), x = std::vector<double>(8), y = x;

  void add(const Box& box, int width, int height) {
    ++sizes[static_cast<size_t>((box.height * 8 - 1) / height * 8 + (box.width * 8 - 1) / width)];
    ++x[static_cast<size_t>(box.x * 8 / (width - box.width + 1))];
    ++y[static_cast<size_t>(box.y * 8 / (height - box.height + 1))];
  }
};

std::vector<double> counts_of(const tessera::testing::ReferenceTensor& tensor) {
  std::vector<double> counts(tensor.bytes.size() / 4);
  for (size_t i = 0; i < counts.size(); ++i) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + i * 4, 4);
    counts[i] = value;
  }
  return counts;
}

template <class Draw>
void compare_boxes(const std::string& file, const Draw& draw) {
  const auto references = tessera::testing::read_references(tessera::testing::source_path("tests/references/") + file);
  for (const auto& [name, size] : references.config.at("images").items()) {
    SCOPED_TRACE(name);
    const int width = size.at(0), height = size.at(1);
    Tally tally;
    for (uint64_t i = 0; i < kDraws; ++i) {
      Rng rng(3, 0, i);
      tally.add(draw(width, height, rng), width, height);
    }
    expect_same_distribution(tally.sizes, counts_of(references.tensors.at(name + "/sizes")));
    expect_same_distribution(tally.x, counts_of(references.tensors.at(name + "/x")));
    expect_same_distribution(tally.y, counts_of(references.tensors.at(name + "/y")));
  }
}

TEST(Draws, ResizedCropsAreTimms) {
  compare_boxes("crop_draws.safetensors", [](int width, int height, Rng& rng) {
    return draw_resized_crop(width, height, {0.08, 1}, {3.0 / 4, 4.0 / 3}, rng);
  });
}

TEST(Draws, InceptionCropsAreTensorflows) {
  compare_boxes("tensorflow_crop_draws.safetensors", [](int width, int height, Rng& rng) {
    return draw_inception_crop(width, height, {0.05, 1}, {0.75, 1.33}, rng);
  });
}

// Where every try fits: the area is uniform and the aspect log-uniform, each by itself; every offset is as likely.
TEST(Draws, ResizedCropFollowsItsFormula) {
  constexpr int kSide = 12000, kCells = 10;
  std::vector<double> cells(kCells * kCells), offsets(kCells);
  for (uint64_t i = 0; i < kDraws; ++i) {
    Rng rng(4, 0, i);
    const Box box = draw_resized_crop(kSide, kSide, {0.1, 0.5}, {0.5, 2}, rng);
    const double area = (static_cast<double>(box.width) * box.height / kSide / kSide - 0.1) / 0.4;
    const double aspect = (std::log2(static_cast<double>(box.width) / box.height) + 1) / 2;
    const auto cell = [](double at) { return static_cast<size_t>(std::clamp(static_cast<int>(at * kCells), 0, kCells - 1)); };
    ++cells[cell(area) * kCells + cell(aspect)];
    ++offsets[cell((box.x + 0.5) / (kSide - box.width + 1))];
  }
  expect_distribution(cells, std::vector<double>(kCells * kCells, 1));
  expect_distribution(offsets, std::vector<double>(kCells, 1));
}

TimmAugment timm(const std::string& word, std::optional<Filter> filter = std::nullopt) {
  const Call call = parse_call("auto_augment(" + word + ")");
  return {word, filter, CallReader(call)};
}

template <class Visit>
void draw_plans(const TimmAugment& augment, const Visit& visit, uint64_t draws = kDraws) {
  AugmentPlan plan;
  for (uint64_t i = 0; i < draws; ++i) {
    Rng rng(5, 0, i);
    augment.draw(200, 100, rng, plan);
    visit(plan);
  }
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// Two of fifteen operations with replacement, each applied with probability 1/2.
TEST(Draws, RandAugmentChoosesAndApplies) {
  std::vector<double> ops(static_cast<size_t>(AugmentOp::kCutout)), applied(3), filters(2), expected(ops.size());
  for (int op = 0; op <= static_cast<int>(AugmentOp::kTranslateY); ++op) expected[static_cast<size_t>(op)] = 1;
  draw_plans(timm("rand-m9-mstd0.5-inc1"), [&](const AugmentPlan& plan) {
    ++applied.at(plan.steps.size());
    for (const AugmentStep& step : plan.steps) {
      ++ops.at(static_cast<size_t>(step.op));
      ++filters.at(step.filter == Filter::kBilinear ? 0 : 1);
    }
  });
  expect_distribution(ops, expected);
  expect_distribution(applied, {1, 2, 1});
  expect_distribution(filters, {1, 1});
}

// The level of a rotation, which is degrees / 3, in tenths from 7 to 10; the last cell is what is clamped to 10.
std::vector<double> rotation_levels(const std::string& word, double low, size_t cells, double step,
                                    std::vector<double>& signs) {
  std::vector<double> levels(cells);
  draw_plans(timm(word), [&](const AugmentPlan& plan) {
    for (const AugmentStep& drawn : plan.steps) {
      if (drawn.op != AugmentOp::kRotate) continue;
      const double level = std::abs(drawn.value) / 3;
      ++levels[static_cast<size_t>(std::clamp((level - low) / step, 0.0, static_cast<double>(cells - 1)))];
      ++signs[drawn.value < 0];
    }
  });
  return levels;
}

TEST(Draws, LevelsAreNormalAndClamped) {
  std::vector<double> signs(2), expected(21);
  const std::vector<double> levels = rotation_levels("rand-m9-mstd0.5-inc1", 8, 21, 0.1, signs);
  const auto below = [](double level) { return normal_below((level - 9) / 0.5); };
  for (size_t i = 0; i < 20; ++i)
    expected[i] = below(8.1 + 0.1 * static_cast<double>(i)) - (i == 0 ? 0 : below(8 + 0.1 * static_cast<double>(i)));
  expected[20] = 1 - below(10);
  expect_distribution(levels, expected);
  expect_distribution(signs, {1, 1});
}

TEST(Draws, LevelsAreUniformWhenTheDeviationIsLarge) {
  std::vector<double> signs(2);
  expect_distribution(rotation_levels("rand-m9-mstd101", 0, 18, 0.5, signs), std::vector<double>(18, 1));
  expect_distribution(rotation_levels("augmix-m4-d1", 0, 8, 0.5, signs), std::vector<double>(8, 1));
}

TEST(Draws, LevelsWithoutDeviationAreFixedAndMayPassTen) {
  draw_plans(
      timm("rand-m15-mmax20-p1"),
      [](const AugmentPlan& plan) {
        ASSERT_EQ(plan.steps.size(), 2u);
        for (const AugmentStep& step : plan.steps) {
          if (step.op == AugmentOp::kRotate) {
            ASSERT_EQ(std::abs(step.value), 45);
          }
          if (step.op == AugmentOp::kTranslateX) {
            ASSERT_EQ(std::abs(step.value), 1.5 * 0.45 * 200);
          }
          if (step.op == AugmentOp::kTranslateY) {
            ASSERT_EQ(std::abs(step.value), 1.5 * 0.45 * 100);
          }
        }
      },
      10'000);
}

// Ordered pairs without replacement: p(i) p(j) / (1 - p(i)).
TEST(Draws, WeightedChoiceIsWithoutReplacement) {
  const std::map<AugmentOp, double> weights = {
      {AugmentOp::kSolarize, 6}, {AugmentOp::kColor, 6 + 1},  {AugmentOp::kGaussianBlur, 6}, {AugmentOp::kRotate, 3},
      {AugmentOp::kShearX, 2},   {AugmentOp::kShearY, 2},     {AugmentOp::kPosterize, 1},    {AugmentOp::kAutoContrast, 1},
      {AugmentOp::kContrast, 1}, {AugmentOp::kBrightness, 1}, {AugmentOp::kSharpness, 1},    {AugmentOp::kEqualize, 1},
      {AugmentOp::kInvert, 1}};
  std::map<std::pair<AugmentOp, AugmentOp>, double> pairs;
  draw_plans(timm("rand-n2-p1-m5-t3aw"), [&](const AugmentPlan& plan) { ++pairs[{plan.steps.at(0).op, plan.steps.at(1).op}]; });
  std::vector<double> counts, expected;
  for (const auto& [first, a] : weights) {
    for (const auto& [second, b] : weights) {
      // Two of timm's operations are kColor here: Desaturate and ColorIncreasing.
      if (first == AugmentOp::kColor || second == AugmentOp::kColor) continue;
      counts.push_back(pairs[{first, second}]);
      expected.push_back(first == second ? 0 : a / 33 * b / (33 - a));
    }
  }
  expect_distribution(counts, expected);
  const double colours = pairs[{AugmentOp::kColor, AugmentOp::kColor}];
  EXPECT_NEAR(colours / kDraws, 6.0 / 33 * 1 / 27 + 1.0 / 33 * 6 / 32, 5e-4);
}

TEST(Draws, ThreeAugmentChoosesUniformly) {
  std::vector<double> ops(3);
  draw_plans(timm("3a"), [&](const AugmentPlan& plan) {
    const AugmentOp op = plan.steps.at(0).op;
    ++ops.at(op == AugmentOp::kSolarize ? 0 : op == AugmentOp::kColor ? 1 : 2);
  });
  expect_distribution(ops, {1, 1, 1});
}

// A sub-policy is uniform and its operations apply independently: the share of pictures with k operations follows.
TEST(Draws, AutoAugmentPolicies) {
  for (const std::string& name : timm_auto_policy_names()) {
    SCOPED_TRACE(name);
    std::vector<double> sizes(3), expected(3);
    for (const TimmSubPolicy& choice : timm_auto_policy(name)->choices) {
      const double a = choice[0].prob, b = choice[1].name.empty() ? 0 : choice[1].prob;
      expected[0] += (1 - a) * (1 - b);
      expected[1] += a * (1 - b) + b * (1 - a);
      expected[2] += a * b;
    }
    std::vector<double> rotations(10), levels(10);
    for (const TimmSubPolicy& choice : timm_auto_policy(name)->choices) {
      for (const TimmPolicyOp& op : choice) {
        if (op.name == "Rotate") levels[static_cast<size_t>(op.level)] += op.prob;
      }
    }
    draw_plans(timm(name), [&](const AugmentPlan& plan) {
      ++sizes.at(plan.steps.size());
      for (const AugmentStep& step : plan.steps) {
        if (step.op == AugmentOp::kRotate) ++rotations.at(static_cast<size_t>(std::lround(std::abs(step.value) / 3)));
      }
    });
    if (name == "3a") {
      EXPECT_EQ(sizes[1], kDraws);
      continue;
    }
    expect_distribution(sizes, expected);
    expect_distribution(rotations, levels);
  }
}

// Of three chains: weights Dirichlet(1, 1, 1), so P(w < x) = 1 - (1 - x)^2; the mix uniform; one to three operations.
TEST(Draws, AugMix) {
  std::vector<double> weights(10), mixes(10), depths(3), expected(10);
  for (size_t i = 0; i < 10; ++i) {
    const double low = static_cast<double>(i) / 10, high = low + 0.1;
    expected[i] = (1 - low) * (1 - low) - (1 - high) * (1 - high);
  }
  draw_plans(timm("augmix-m5"), [&](const AugmentPlan& plan) {
    ASSERT_EQ(plan.chains.size(), 3u);
    ASSERT_EQ(plan.chains[2].end, plan.steps.size());
    ++weights[std::min<size_t>(9, static_cast<size_t>(plan.chains[1].weight * 10))];
    ++mixes[std::min<size_t>(9, static_cast<size_t>(plan.mix * 10))];
    ++depths.at(plan.chains[1].end - plan.chains[0].end - 1);
    ASSERT_NEAR(plan.chains[0].weight + plan.chains[1].weight + plan.chains[2].weight, 1, 1e-6);
  });
  expect_distribution(weights, expected);
  expect_distribution(mixes, std::vector<double>(10, 1));
  expect_distribution(depths, {1, 1, 1});
}

// Beta(1/2, 1/2): P(m < x) = 2 / pi asin(sqrt(x)).
TEST(Draws, AugMixOfAnotherAlpha) {
  std::vector<double> mixes(10), expected(10);
  const auto below = [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); };
  for (size_t i = 0; i < 10; ++i) expected[i] = below(static_cast<double>(i + 1) / 10) - below(static_cast<double>(i) / 10);
  draw_plans(
      timm("augmix-a0.5-w2-d2"),
      [&](const AugmentPlan& plan) {
        ASSERT_EQ(plan.steps.size(), 4u);
        ++mixes[std::min<size_t>(9, static_cast<size_t>(plan.mix * 10))];
      },
      kDraws / 5);
  expect_distribution(mixes, expected);
}

TEST(Draws, BigVisionRandAugment) {
  std::vector<double> ops(18), expected(18, 1), signs(2), across(10), down(10);
  expected[static_cast<size_t>(AugmentOp::kGaussianBlur)] = expected[static_cast<size_t>(AugmentOp::kHue)] = 0;
  AugmentPlan plan;
  for (uint64_t i = 0; i < kDraws; ++i) {
    Rng rng(6, 0, i);
    BigVisionRandAugment{2, 15}.draw(200, 100, rng, plan);
    ASSERT_EQ(plan.steps.size(), 2u);
    for (const AugmentStep& step : plan.steps) {
      ++ops.at(static_cast<size_t>(step.op));
      if (step.op == AugmentOp::kTranslateX) {
        ASSERT_EQ(std::abs(step.value), 150);
      }
      if (step.op == AugmentOp::kSolarize) {
        ASSERT_EQ(step.value, 384);
      }
      if (step.op == AugmentOp::kRotate) ++signs[step.value < 0];
      if (step.op != AugmentOp::kCutout) continue;
      ASSERT_EQ(step.value, 60);
      ++across.at(static_cast<size_t>(step.x / 20));
      ++down.at(static_cast<size_t>(step.y / 10));
    }
  }
  expect_distribution(ops, expected);
  expect_distribution(signs, {1, 1});
  expect_distribution(across, std::vector<double>(10, 1));
  expect_distribution(down, std::vector<double>(10, 1));
}

// All 24 orders are as likely, and factors are uniform.
TEST(Draws, ColorJitter) {
  const JitterFactors factors{{{AugmentOp::kBrightness, JitterRange{0.6, 1.4}},
                               {AugmentOp::kContrast, JitterRange{0.6, 1.4}},
                               {AugmentOp::kColor, JitterRange{0.6, 1.4}},
                               {AugmentOp::kHue, JitterRange{-0.1, 0.1}}}};
  std::map<std::vector<AugmentOp>, double> orders;
  std::vector<double> values(8), hues(8);
  AugmentPlan plan;
  for (uint64_t i = 0; i < kDraws; ++i) {
    Rng rng(7, 0, i);
    draw_color_jitter(factors, rng, plan);
    std::vector<AugmentOp> order;
    for (const AugmentStep& step : plan.steps) {
      order.push_back(step.op);
      if (step.op == AugmentOp::kColor) ++values.at(static_cast<size_t>((step.value - 0.6) * 10));
      if (step.op == AugmentOp::kHue) ++hues.at(static_cast<size_t>((step.value + 0.1) * 40));
    }
    ++orders[order];
  }
  ASSERT_EQ(orders.size(), 24u);
  std::vector<double> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  expect_distribution(counts, std::vector<double>(24, 1));
  expect_distribution(values, std::vector<double>(8, 1));
  expect_distribution(hues, std::vector<double>(8, 1));
}

// What a level means: every value that timm's functions return, and no other.
TEST(Draws, LevelsMeanWhatTheyMeanInTimm) {
  const auto references =
      tessera::testing::read_references(tessera::testing::source_path("tests/references/augment.safetensors"));
  const auto& table = references.config.at("levels");
  EXPECT_EQ(table.size(), 25u);
  for (const auto& [name, levels] : table.items()) {
    if (name == "GaussianBlurRand") continue;  // another random number: below
    for (const auto& [level, expected] : levels.items()) {
      SCOPED_TRACE(name + " " + level);
      std::set<double> values;
      for (uint64_t i = 0; i < 40; ++i) {
        Rng rng(8, 0, i);
        double value = timm_op(name).argument(*parse_number(level), {0.45, 1, 1}, rng);
        // Desaturate gives its level to a function that makes the factor of it.
        if (name == "Desaturate") value = 1 - value;
        values.insert(value);
      }
      const auto wanted = expected.get<std::vector<double>>();
      ASSERT_EQ(values.size(), wanted.size());
      auto at = wanted.begin();
      for (const double value : values) EXPECT_NEAR(value, *at++, 1e-12);
    }
  }
  Rng rng(9);
  for (int i = 0; i < 1000; ++i) {
    const double radius = timm_op("GaussianBlurRand").argument(5, {}, rng);
    EXPECT_TRUE(radius >= 0.1 && radius <= 1.0) << radius;
  }
}

TEST(TimmWords, WhatCannotBeRead) {
  const auto error_of = [](const std::string& word) -> std::string {
    try {
      timm(word);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return error.what();
    }
    return "accepted";
  };
  for (const char* word :
       {"rand", "rand-m9-mstd0.5-inc1", "rand-m7-n4-p0.3-mmax15-t3a", "rand-mstd1-tweights", "original-mstd0.5", "originalr",
        "v0", "v0r", "3a", "augmix", "augmix-m5-w4-d2-b1-a2-mstd1", "augmix-d-1"}) {
    EXPECT_EQ(error_of(word), "accepted") << word;
  }
  const auto expect_error = [&](const std::string& word, const std::string& part) {
    EXPECT_NE(error_of(word).find(part), std::string::npos) << word << ": " << error_of(word);
  };
  expect_error("random-m9", "unknown augmentation `random`");
  expect_error("rand-x9", "unknown section `x`");
  expect_error("rand-9", "cannot read `9`");
  expect_error("rand-m9.5", "whole number");
  expect_error("rand-tnone", "tweights");
  expect_error("rand-n20-tweights", "chosen twice");
  expect_error("rand-p2", "probability");
  expect_error("original-m9", "unknown section `m`");
  expect_error("augmix-a0", "positive");
  expect_error("augmix-w", "cannot read `w`");
}

}  // namespace
}  // namespace tessera::image
