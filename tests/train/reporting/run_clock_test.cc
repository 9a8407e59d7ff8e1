#include "train/reporting/run_clock.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tessera::train {
namespace {

using std::chrono::seconds;

std::map<std::string, double> shares(const state::RunTimes& times, double unix_time) {
  std::map<std::string, double> out;
  for (const monitor::Metric& metric : goodput(times, unix_time)) out[metric.name] = std::get<double>(metric.value);
  return out;
}

double sum(const std::map<std::string, double>& shares) {
  double all = 0;
  for (const auto& [name, share] : shares) all += share;
  return all;
}

TEST(RunClock, WhatIsOfNoOtherPhaseIsInitAndThenSteps) {
  const auto start = RunClock::Clock::now();
  RunClock clock(1000, start);
  clock.add(&state::RunTimes::compile, 3);
  clock.begin(start + seconds(10));
  clock.add(&state::RunTimes::input, 5);
  clock.add(&state::RunTimes::evaluation, 15);
  clock.add(&state::RunTimes::save, 10);
  const state::RunTimes times = clock.times(start + seconds(100));
  EXPECT_DOUBLE_EQ(times.init, 7);
  EXPECT_DOUBLE_EQ(times.step, 60);
  const auto parts = shares(times, 1100);
  EXPECT_DOUBLE_EQ(parts.at("goodput"), 0.6);
  EXPECT_DOUBLE_EQ(parts.at("badput/compile"), 0.03);
  EXPECT_DOUBLE_EQ(parts.at("badput/evaluation"), 0.15);
  EXPECT_NEAR(parts.at("badput/recovery"), 0, 1e-12);
  EXPECT_NEAR(sum(parts), 1, 1e-12);
}

// A checkpoint at 50 seconds, a kill at 80 as its last line says, a minute until the next start.
TEST(RunClock, CountsWhatAKillCost) {
  const auto start = RunClock::Clock::now();
  RunClock first(1000, start);
  first.begin(start + seconds(10));
  const state::RunTimes saved = first.times(start + seconds(50));
  RunClock second(1140, start);
  second.resume(saved, /*seconds=*/50, /*last_uptime=*/80);
  second.add(&state::RunTimes::restore, 4);
  second.begin(start + seconds(10));
  const auto parts = shares(second.times(start + seconds(60)), 1200);
  EXPECT_DOUBLE_EQ(parts.at("goodput"), (40 + 50) / 200.0);
  EXPECT_DOUBLE_EQ(parts.at("badput/init"), (10 + 6) / 200.0);
  EXPECT_DOUBLE_EQ(parts.at("badput/restore"), 4 / 200.0);
  EXPECT_DOUBLE_EQ(parts.at("badput/wasted"), 30 / 200.0);
  EXPECT_DOUBLE_EQ(parts.at("badput/recovery"), 60 / 200.0);
  EXPECT_NEAR(sum(parts), 1, 1e-12);
}

TEST(RunClock, AClockThatWasSetBackTakesNothingAway) {
  const auto start = RunClock::Clock::now();
  RunClock clock(1000, start);
  clock.begin(start);
  const auto parts = shares(clock.times(start + seconds(100)), 500);
  EXPECT_DOUBLE_EQ(parts.at("goodput"), 1);
  EXPECT_DOUBLE_EQ(parts.at("badput/recovery"), 0);
}

TEST(RunClock, CheckpointsOfOlderVersionsSayNoPhases) {
  const auto start = RunClock::Clock::now();
  RunClock clock(1000, start);
  clock.resume({}, 300, 0);
  clock.begin(start);
  const auto parts = shares(clock.times(start + seconds(100)), 1100);
  EXPECT_DOUBLE_EQ(parts.at("goodput"), 1);
}

}  // namespace
}  // namespace tessera::train
