// A trained model's answers to images.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/use_model.h"
#include "support/run_graph.h"
#include "train/small_run.h"
#include "train/step/trace.h"

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

// Pillow's rgb2l: (19595 r + 38470 g + 7471 b + 2^15) >> 16.
TEST(Luminance, IsPillows) {
  std::vector<uint8_t> pixels;
  for (uint32_t i = 0; i < 4096; ++i) {
    for (const uint32_t prime : {73U, 151U, 199U}) pixels.push_back(static_cast<uint8_t>(i * prime ^ i >> 4));
  }
  for (const uint8_t grey : {0, 1, 127, 254, 255}) pixels.insert(pixels.end(), 3, grey);
  const auto count = static_cast<int64_t>(pixels.size() / 3);
  ir::Graph graph;
  const ir::GraphScope scope(graph);
  const TensorType type{DType::kU8, {1, 1, count, 3}};
  graph.results = {luminance(graph.add_parameter(type))};
  const auto got = testing::run_graph(graph, {testing::host_array<uint8_t>(type.dtype, type.dims, pixels)})[0].floats();
  for (size_t i = 0; i < got.size(); ++i) {
    const uint32_t sum = 19595U * pixels[3 * i] + 38470U * pixels[3 * i + 1] + 7471U * pixels[3 * i + 2] + 32768;
    ASSERT_EQ(got[i], static_cast<float>(sum >> 16)) << i;
  }
}

}  // namespace
}  // namespace tessera::train
