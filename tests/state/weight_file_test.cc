// Weights of other libraries from whichever file.
#include "state/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/paths.h"

namespace tessera::state {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = testing::source_path("tests/references/torch/");

TEST(WeightFile, OfTorchHasArraysBelowAScope) {
  for (const char* name : {"x.pth", "x.pt", "pytorch_model.bin", "x.pth.tar", "x.ckpt", "x.safetensors", "x.npz"}) {
    EXPECT_TRUE(is_weight_file(name)) << name;
  }
  const WeightFile all = read_weight_file({kFolder + "checkpoint.pth.tar", ""});
  EXPECT_EQ(all.arrays.size(), 2u);
  EXPECT_EQ(all.arrays.at("weight").type, (TensorType{DType::kF32, {2, 3}}));
  try {
    read_weight_file({kFolder + "checkpoint.pth.tar", "encoder"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no array whose name begins with `encoder.`"));
  }
}

}  // namespace
}  // namespace tessera::state
