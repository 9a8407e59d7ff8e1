// Positions on other grids, against timm and the formula of scipy.ndimage.zoom (tools/references/models/positions.py).

#include "interop/positions.h"

#include <gtest/gtest.h>

#include "models/weights.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::models {
namespace {

TEST(Positions, ResampleAsTimmAndBigVisionDo) {
  const auto file = testing::read_references(testing::source_path("tests/references/positions.safetensors"));
  const int64_t width = file.config["width"];
  ASSERT_EQ(file.config["cases"].size(), 6u);
  for (const auto& [name, c] : file.config["cases"].items()) {
    const int64_t prefix = c["prefix"];
    const interop::Grid old_grid{c["old"][0], c["old"][1]}, new_grid{c["new"][0], c["new"][1]};
    const auto in = testing::formula_array("positions/" + name, (prefix + old_grid.rows * old_grid.columns) * width, 0.5);
    for (const interop::Resample how : {interop::Resample::kBicubic, interop::Resample::kBilinear}) {
      const std::string key = (how == interop::Resample::kBicubic ? "bicubic/" : "bilinear/") + name;
      SCOPED_TRACE(key);
      const auto& tensor = file.tensors.at(key);
      const std::vector<float> want = to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
      const std::vector<float> got = interop::resample_positions(in, prefix, old_grid, new_grid, width, how);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-6) << i;
    }
  }
}

TEST(Positions, StayOnTheSameGrid) {
  const auto in = testing::formula_array("same", (1 + 6) * 4);
  EXPECT_EQ(interop::resample_positions(in, 1, {2, 3}, {2, 3}, 4, interop::Resample::kBicubic), in);
  EXPECT_EQ(interop::resample_positions(in, 1, {2, 3}, {2, 3}, 4, interop::Resample::kBilinear), in);
}

}  // namespace
}  // namespace tessera::models
