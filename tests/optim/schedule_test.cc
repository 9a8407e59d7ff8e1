#include "optim/schedule/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "ir/ops.h"
#include "support/paths.h"
#include "support/run_graph.h"
#include "support/safetensors_reader.h"

namespace tessera::optim {
namespace {

const RunLength kRun{.total_steps = 1000, .batch = 50, .examples_per_epoch = 500};  // 10 steps an epoch

double rate(const std::string& text, int64_t step) { return Schedule::parse(text, kRun).at(step); }

TEST(Schedule, PlainNumberIsConstant) {
  EXPECT_DOUBLE_EQ(rate("1e-3", 0), 1e-3);
  EXPECT_DOUBLE_EQ(rate("0.5", 999), 0.5);
  EXPECT_DOUBLE_EQ(rate("constant(2)", 10), 2);
}

TEST(Schedule, StartsLater) {
  // 400 steps are frozen; what follows is a run of 600.
  const RunLength rest{.total_steps = 600, .batch = 50, .examples_per_epoch = 500};
  const char* calls[] = {"constant(0.1",
                         "cosine(0.1, warmup=10 %",
                         "wsd(0.1, decay=20 %, cooldown=50 steps",
                         "rsqrt(0.1",
                         "step(0.1, every=10 epochs, warmup=2 epochs, warmup_mode=prefix",
                         "one_cycle(0.1"};
  for (const std::string call : calls) {
    for (const char* start : {"400 steps", "40 epochs", "40 %"}) {
      const Schedule late = Schedule::parse(call + ", start=" + start + ")", kRun);
      const Schedule whole = Schedule::parse(call + ")", rest);
      for (const int64_t s : {0, 399}) EXPECT_EQ(late.at(s), 0) << call;
      for (const int64_t s : {0, 1, 60, 300, 599}) EXPECT_DOUBLE_EQ(late.at(400 + s), whole.at(s)) << call << " step " << s;
    }
  }
  EXPECT_THROW(rate("constant(0.1, start=1000 steps)", 0), Error);
  EXPECT_THROW(rate("cosine(0.1, start=40 %, warmup=700 steps)", 0), Error);
}

TEST(Schedule, CosineAgainstClosedForm) {
  for (const int64_t s : {0, 1, 500, 999}) {
    EXPECT_NEAR(rate("cosine(0.1)", s), 0.1 * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(s) / 1000)), 1e-15)
        << s;
  }
  EXPECT_NEAR(rate("cosine(0.1, min=0.02)", 500), 0.06, 1e-15);
}

// fastai's SchedExp: start (end / start)^pos.
TEST(Schedule, ExponentialGoesByEqualFactors) {
  EXPECT_DOUBLE_EQ(rate("exponential(0.1, end=1e-3)", 0), 0.1);
  EXPECT_NEAR(rate("exponential(0.1, end=1e-3)", 500), 0.01, 1e-15);
  EXPECT_NEAR(rate("exponential(0.1, end=1e-3)", 1000), 1e-3, 1e-15);
  EXPECT_NEAR(rate("exponential(1e-7, end=10, length=100 steps)", 50), 1e-3, 1e-12);
  EXPECT_NEAR(rate("exponential(1e-7, end=10, length=10 epochs)", 400), 10, 1e-9) << "it stays there";
  EXPECT_FALSE(Schedule::parse("exponential(0.1, end=1e-3)", kRun).sweeps());
  EXPECT_TRUE(Schedule::parse("exponential(1e-7, end=10)", kRun).sweeps());
  EXPECT_THROW(rate("exponential(0.1, end=0)", 0), Error);
  EXPECT_THROW(rate("exponential(0.1, length=0 steps)", 0), Error);
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

std::vector<float> reference(const testing::ReferenceFile& file, const std::string& key) {
  const testing::ReferenceTensor& tensor = file.tensors.at(key);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// timm's schedules (tools/references/training/schedules.py) and big_vision's (big_vision_optimizers.py), on the host and in a
// graph.
TEST(Schedule, TwoHundredPointsFollowTheOriginals) {
  for (const char* name : {"schedules", "big_vision_schedules"}) {
    const auto file = testing::read_references(testing::source_path("tests/references/") + std::string(name) + ".safetensors");
    const int64_t total = file.config["total"];
    std::vector<std::string> keys;
    std::vector<Schedule> schedules;
    for (const auto& [key, text] : file.config["runs"].items()) {
      keys.push_back(key);
      schedules.push_back(Schedule::parse(text, {total, 1, 1}));
    }
    std::vector<int32_t> steps(static_cast<size_t>(total));
    for (size_t s = 0; s < steps.size(); ++s) steps[s] = static_cast<int32_t>(s);
    const auto rates = testing::run({testing::i32_array({total}, steps)}, [&](const ir::Values& in) {
      ir::Values out;
      for (const Schedule& schedule : schedules) out.push_back(ir::broadcast_to(schedule.at(in[0]), {total}));
      return out;
    });
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::vector<float> want = reference(file, keys[i]), got = rates[i].floats();
      for (size_t s = 0; s < want.size(); ++s) {
        ASSERT_NEAR(schedules[i].at(static_cast<int64_t>(s)), want[s], 1e-7) << keys[i] << " at " << s;
        ASSERT_NEAR(got[s], want[s], 1e-6) << keys[i] << " at " << s;
      }
    }
  }
}

TEST(Schedule, OneCycleMovesMomentumAsTorch) {
  const auto file = testing::read_references(testing::source_path("tests/references/schedules.safetensors"));
  const int64_t total = file.config["total"];
  std::vector<int32_t> steps(static_cast<size_t>(total));
  for (size_t s = 0; s < steps.size(); ++s) steps[s] = static_cast<int32_t>(s);
  for (const auto& [key, text] : file.config["cycles"].items()) {
    const Schedule schedule = Schedule::parse(text, {total, 1, 1});
    ASSERT_TRUE(schedule.cycles_momentum());
    const std::vector<float> rates = reference(file, key), momenta = reference(file, key + "/momentum");
    const auto got = testing::run({testing::i32_array({total}, steps)},
                                  [&](const ir::Values& in) { return ir::Values{schedule.momentum_at(in[0])}; });
    for (size_t s = 0; s < steps.size(); ++s) {
      EXPECT_NEAR(schedule.at(steps[s]), rates[s], 1e-7) << key << " at " << s;
      EXPECT_NEAR(schedule.momentum_at(steps[s]), momenta[s], 1e-7) << key << " at " << s;
      EXPECT_NEAR(got[0].floats()[s], momenta[s], 1e-6) << key << " at " << s;
    }
  }
  const Schedule late = Schedule::parse("one_cycle(1, start=400 steps, momentum=[0.9, 0.5])", kRun);
  EXPECT_DOUBLE_EQ(late.momentum_at(100), 0.9);
  EXPECT_DOUBLE_EQ(late.momentum_at(400 + 150), 0.5);
  EXPECT_FALSE(Schedule::parse("one_cycle(1)", kRun).cycles_momentum());
}

TEST(Schedule, PlateauFollowsTimm) {
  const auto file = testing::read_references(testing::source_path("tests/references/schedules.safetensors"));
  const std::vector<float> scores = reference(file, "scores");
  for (const auto& [key, text] : file.config["plateaus"].items()) {
    const Schedule schedule = Schedule::parse(text, {file.config["total"], 1, 1});
    ASSERT_TRUE(schedule.plateau());
    PlateauState state;
    const std::vector<float> want = reference(file, key);
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto t = static_cast<int64_t>(i) + 1;
      state = after_score(*schedule.plateau(), state, t, static_cast<double>(scores[i]));
      ASSERT_NEAR(schedule.at(t) * state.scale, want[i], 1e-7) << key << " at " << t;
    }
    EXPECT_LT(state.scale, 0.1) << key;
  }
}

TEST(Schedule, FastaisCurves) {
  EXPECT_DOUBLE_EQ(rate("flat_cosine(1)", 749), 1);
  EXPECT_NEAR(rate("flat_cosine(1)", 875), 0.5 * (1 + 1e-5), 1e-12);
  EXPECT_NEAR(rate("flat_cosine(1, flat=50 %, div_final=4)", 1000), 0.25, 1e-12);
  EXPECT_NEAR(rate("one_cycle(1)", 0), 1.0 / 25, 1e-15);
  EXPECT_NEAR(rate("one_cycle(1)", 125), 0.5 * (1 + 1.0 / 25), 1e-15);
  EXPECT_NEAR(rate("one_cycle(1)", 250), 1, 1e-15);
  EXPECT_NEAR(rate("one_cycle(1)", 625), 0.5 * (1 + 1e-5), 1e-12);
  EXPECT_NEAR(rate("one_cycle(1, rise=500 steps, div=2, div_final=10)", 1000), 0.1, 1e-12);
}

TEST(Schedule, HeldRatesChangeOnceAnEpoch) {
  for (const int64_t s : {0, 9, 10, 19, 555}) {
    EXPECT_DOUBLE_EQ(rate("cosine(1, hold=1 epoch, warmup=2 epochs, warmup_mode=overlap)", s),
                     rate("cosine(1, warmup=2 epochs, warmup_mode=overlap)", s / 10 * 10));
  }
  // Noise is drawn for each epoch.
  EXPECT_NE(rate("constant(1, noise=0 steps, hold=1 epoch)", 30), rate("constant(1, noise=0 steps, hold=1 epoch)", 40));
  EXPECT_EQ(rate("constant(1, noise=0 steps, hold=1 epoch)", 30), rate("constant(1, noise=0 steps, hold=1 epoch)", 39));
  EXPECT_EQ(rate("constant(1, noise=[10 %, 20 %], hold=1 epoch)", 99), 1);
  EXPECT_NE(rate("constant(1, noise=[10 %, 20 %], hold=1 epoch)", 100), 1);
  EXPECT_EQ(rate("constant(1, noise=[10 %, 20 %], hold=1 epoch)", 200), 1);
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
  EXPECT_NE(message("cosine(1, cycles=0)").find("`cycles`"), std::string::npos);
  EXPECT_NE(message("cosine(1, length=0 steps)").find("`length`"), std::string::npos);
  EXPECT_NE(message("cosine(1, k=0)").find("`k` must be above 0"), std::string::npos);
  EXPECT_NE(message("cosine(1, warmup_mode=overlp)").find("did you mean `overlap`"), std::string::npos);
  EXPECT_NE(message("cosine(1, cycle_mu=2)").find("cycle_mul"), std::string::npos);
  EXPECT_NE(message("step(1, milestones=[9 steps], factors=[1, 2])").find("one number for each"), std::string::npos);
  EXPECT_NE(message("wsd(1, decay=2000 steps)").find("fit after the warm-up"), std::string::npos);
  EXPECT_NE(message("wsd(1, shape=cosin)").find("did you mean `cosine`"), std::string::npos);
  EXPECT_NE(message("flat_cosine(1, flat=100 %)").find("shorter than the run"), std::string::npos);
  EXPECT_NE(message("constant(1, noise=[1 steps, 2 steps, 3 steps])").find("[FROM, TO]"), std::string::npos);
  EXPECT_NE(message("one_cycle(1, rise=1000 steps)").find("1000 of 1000 steps"), std::string::npos);
  EXPECT_NE(message("one_cycle(1, rise=1000 steps)").find("lengthen `total`"), std::string::npos);
  EXPECT_NE(message("plateau(1)").find("for example metric=val/loss"), std::string::npos);
  EXPECT_NE(message("plateau(1, metric=val/loss, factor=2)").find("below 1"), std::string::npos);
  EXPECT_NE(message("plateau(1, metric=val/loss, mode=least)").find("max or min"), std::string::npos);
  const RunLength endless{.total_steps = 1000000, .batch = 1, .examples_per_epoch = 1000};
  EXPECT_THROW(Schedule::parse("cosine(1, noise=50 %)", endless), Error);
  EXPECT_NO_THROW(Schedule::parse("cosine(1, noise=50 %, hold=1 epoch)", endless));
}

}  // namespace
}  // namespace tessera::optim
