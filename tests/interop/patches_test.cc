// Kernels of other patches and channels, against timm and big_vision's formula (tools/references/models/patches.py).

#include "interop/patches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/weights.h"
#include "support/formula.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::models {
namespace {

class Patches : public ::testing::Test {
 protected:
  std::vector<float> input(const std::string& name, int64_t side) const {
    return testing::formula_array("patches/" + name, side * side * 3 * features_, 0.5);
  }
  void expect(const std::string& key, const std::vector<float>& got) const {
    SCOPED_TRACE(key);
    const auto& tensor = file_.tensors.at(key);
    const std::vector<float> want = to_floats({{DType::kF32, tensor.shape}, std::as_bytes(std::span(tensor.bytes))});
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-6) << i;
  }
  const testing::ReferenceFile file_ = testing::read_references(testing::source_path("tests/references/patches.safetensors"));
  const int64_t features_ = file_.config["features"];
};

TEST_F(Patches, ResampleAsTimmAndBigVisionDo) {
  ASSERT_EQ(file_.config["cases"].size(), 4u);
  for (const auto& [name, sides] : file_.config["cases"].items()) {
    const int64_t from = sides[0], to = sides[1];
    expect("bicubic/" + name,
           interop::resample_patches(input(name, from), from, to, 3 * features_, interop::Resample::kBicubic));
    expect("bilinear/" + name,
           interop::resample_patches(input(name, from), from, to, 3 * features_, interop::Resample::kBilinear));
  }
}

TEST_F(Patches, ChannelsAreTimms) {
  ASSERT_EQ(file_.config["channels"].size(), 4u);
  for (const int64_t channels : file_.config["channels"]) {
    expect(fmt::format("channels/{}", channels), interop::adapt_channels(input("up", 4), 16, channels, features_));
  }
}

}  // namespace
}  // namespace tessera::models
