#include "train/reporting/own_figures.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

TEST(OwnFigures, AreOfTheStepsSinceTheLast) {
  const auto loop = std::make_shared<LoopTime>();
  OwnFigures own(loop, nullptr);
  EXPECT_FALSE(own.take().input_wait) << "no step has ended";
  loop->set({10, 20, 5});
  monitor::ProcessFigures figures = own.take();
  EXPECT_EQ(figures.step, 10);
  EXPECT_DOUBLE_EQ(*figures.input_wait, 0.25);
  EXPECT_DOUBLE_EQ(*figures.step_seconds, 1.5);
  figures = own.take();
  EXPECT_DOUBLE_EQ(*figures.input_wait, 0.25) << "a step under way says nothing new";
  loop->set({12, 24, 5});
  figures = own.take();
  EXPECT_EQ(figures.step, 12);
  EXPECT_DOUBLE_EQ(*figures.input_wait, 0);
  EXPECT_DOUBLE_EQ(*figures.step_seconds, 2);
  EXPECT_GT(*figures.memory_total, *figures.resident);
  EXPECT_GT(*figures.resident, 0);
  EXPECT_FALSE(figures.device_in_use) << "there is no client";
}

TEST(OwnFigures, SayWhatStepsWaitedForOtherProcesses) {
  const auto loop = std::make_shared<LoopTime>();
  OwnFigures own(loop, nullptr);
  loop->set({10, 20, 5});
  EXPECT_FALSE(own.take().peer_wait) << "the plugin sums";
  loop->set({12, 24, 5, 1});
  EXPECT_DOUBLE_EQ(own.take().peer_wait.value(), 0.25);
  loop->set({14, 34, 5, 6});
  EXPECT_DOUBLE_EQ(own.take().peer_wait.value(), 0.5);
}

TEST(OwnFigures, OfARunThatGoesOnAreOfItsOwnSteps) {
  const auto loop = std::make_shared<LoopTime>();
  OwnFigures own(loop, nullptr, 100);
  EXPECT_EQ(own.take().step, 100);
  loop->set({110, 20, 5});
  EXPECT_DOUBLE_EQ(*own.take().step_seconds, 1.5);
}

}  // namespace
}  // namespace tessera::train
