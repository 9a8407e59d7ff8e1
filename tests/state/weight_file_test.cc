// Weights of other libraries from whichever file.
#include "state/weight_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "store/temp_dir.h"
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

// A small file may unpack to much, or share its elements.
TEST(WeightFile, OfTorchIsAskedForTypesBeforeItIsRead) {
  const testing::TempDir dir;
  const std::string path = dir / "a.pth";
  const models::Array whole = read_weight_file({kFolder + "checkpoint.pth.tar", ""}).owned.at("weight");
  std::string bytes = testing::slurp(kFolder + "checkpoint.pth.tar");
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(whole.data.data()), whole.data.size()));
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  testing::spill(path, bytes);
  const auto refusal = [&](const CheckTypes& check) {
    try {
      read_weight_file({path, ""}, check);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_THAT(refusal({}), HasSubstr("is damaged"));
  EXPECT_EQ(refusal([](const models::ArrayViews& types) {
              EXPECT_EQ(types.at("weight").type, (TensorType{DType::kF32, {2, 3}}));
              EXPECT_TRUE(types.at("weight").data.empty());
              throw data_error("not wanted");
            }),
            "not wanted");
  EXPECT_EQ(read_weight_types({path, ""}).arrays.size(), 2u);
}

}  // namespace
}  // namespace tessera::state
