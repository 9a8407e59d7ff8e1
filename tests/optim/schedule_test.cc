#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tessera::optim {
namespace {

const RunLength kRun{.total_steps = 1000, .batch = 50, .examples_per_epoch = 500};  // 10 steps an epoch

double rate(const std::string& text, int64_t step) { return Schedule::parse(text, kRun).at(step); }

TEST(Schedule, PlainNumberIsConstant) {
  EXPECT_DOUBLE_EQ(rate("1e-3", 0), 1e-3);
  EXPECT_DOUBLE_EQ(rate("0.5", 999), 0.5);
  EXPECT_DOUBLE_EQ(rate("constant(2)", 10), 2);
}

TEST(Schedule, CosineAgainstClosedForm) {
  for (const int64_t s : {0, 1, 500, 999}) {
    EXPECT_NEAR(rate("cosine(0.1)", s), 0.1 * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(s) / 1000)), 1e-15)
        << s;
  }
  EXPECT_NEAR(rate("cosine(0.1, min=0.02)", 500), 0.06, 1e-15);
}

TEST(Schedule, WarmupCountsFromOneAndDecayBeginsAfterIt) {
  EXPECT_DOUBLE_EQ(rate("cosine(1, warmup=50 steps)", 0), 1.0 / 50);
  EXPECT_DOUBLE_EQ(rate("cosine(1, warmup=50 steps)", 49), 1);
  EXPECT_DOUBLE_EQ(rate("cosine(1, warmup=50 steps)", 50), 1);
  EXPECT_NEAR(rate("cosine(1, warmup=50 steps)", 525), 0.5, 1e-15);
  EXPECT_DOUBLE_EQ(rate("constant(1, warmup=4 steps, warmup_start=0.2)", 0), 0.2 + 0.8 / 4);
}

TEST(Schedule, DurationsOfEveryUnit) {
  for (const char* warmup : {"100 steps", "10 epochs", "5000 examples", "10 %"}) {
    EXPECT_DOUBLE_EQ(rate(std::string("constant(1, warmup=") + warmup + ")", 49), 0.5) << warmup;
  }
}

TEST(Schedule, LinearAndPolynomial) {
  EXPECT_NEAR(rate("linear(2)", 250), 1.5, 1e-15);
  EXPECT_NEAR(rate("polynomial(2, 3)", 500), 2 * 0.125, 1e-15);
  EXPECT_NEAR(rate("polynomial(2, power=2, min=1)", 500), 1.25, 1e-15);
}

TEST(Schedule, RsqrtIsFlatDuringWarmupThenFalls) {
  const std::string text = "rsqrt(1, timescale=100 steps, shift=50 steps, warmup=10 steps)";
  EXPECT_NEAR(rate(text, 9), 1 / std::sqrt(1.5), 1e-15);
  EXPECT_NEAR(rate(text, 110), 1 / std::sqrt(1 + 150.0 / 100), 1e-15);
}

TEST(Schedule, StepsAndMilestones) {
  EXPECT_DOUBLE_EQ(rate("step(1, 0.5, every=3 epochs)", 29), 1);
  EXPECT_DOUBLE_EQ(rate("step(1, 0.5, every=3 epochs)", 30), 0.5);
  EXPECT_DOUBLE_EQ(rate("step(1, 0.5, every=3 epochs)", 60), 0.25);
  EXPECT_DOUBLE_EQ(rate("step(1, milestones=[100 steps, 50 %])", 99), 1);
  EXPECT_DOUBLE_EQ(rate("step(1, milestones=[100 steps, 50 %])", 100), 0.1);
  EXPECT_NEAR(rate("step(1, milestones=[100 steps, 50 %])", 500), 0.01, 1e-15);
}

TEST(Schedule, CooldownFallsToTheEnd) {
  EXPECT_DOUBLE_EQ(rate("constant(1, cooldown=100 steps)", 900), 1);
  EXPECT_DOUBLE_EQ(rate("constant(1, cooldown=100 steps)", 950), 0.5);
  EXPECT_DOUBLE_EQ(rate("constant(1, cooldown=100 steps)", 999), 0.01);
}

TEST(Schedule, MistakesTeach) {
  const auto message = [](const std::string& text) {
    try {
      Schedule::parse(text, kRun, "optimizer.lr");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message("cosin(1)").find("did you mean `cosine`"), std::string::npos) << message("cosin(1)");
  EXPECT_NE(message("cosine(1, warmup=900 steps, cooldown=200 steps)").find("longer than the run"), std::string::npos);
  EXPECT_NE(message("cosine(1, warm=9 steps)").find("warmup"), std::string::npos) << message("cosine(1, warm=9 steps)");
  EXPECT_NE(message("cosine(0)").find("above 0"), std::string::npos);
  EXPECT_NE(message("cosine(1, min=2)").find("`min`"), std::string::npos);
  EXPECT_NE(message("step(1)").find("either `every` or `milestones`"), std::string::npos);
  EXPECT_NE(message("step(1, milestones=[20 steps, 10 steps])").find("must not fall"), std::string::npos);
  EXPECT_NE(message("cosine(1, warmup=9)").find("optimizer.lr"), std::string::npos);
}

}  // namespace
}  // namespace tessera::optim
