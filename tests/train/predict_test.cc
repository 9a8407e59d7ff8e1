// A trained model's answers to images.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/use_model.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;

TEST(Predict, KeepsToTheLimitsOfTheRunsRecipe) {
  testing::SmallRun run;
  run.train("limited", {"total=2 steps", "optimizer.lr=1e-3", "data.limits.max_pixels=120"});
  const state::LoadedModel model = state::load_model(run.path("limited"));
  EXPECT_EQ(model.limits.pixels, 120);
  testing::write_png(run.path("large.png"), 12, 11, std::vector<uint8_t>(3 * 12 * 11));
  std::vector<std::string> errors;
  inference::predict(model, model.pp, {run.path("val/blue/000.png"), run.path("large.png")}, run.options("").device,
                     [&](const inference::Prediction& one) { errors.push_back(one.error); });
  EXPECT_THAT(errors, ElementsAre("", "12x11 pixels are over the limit of 120"));
}

}  // namespace
}  // namespace tessera::train
