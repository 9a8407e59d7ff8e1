// Preprocessing chains <-> timm's words for them.

#include "inference/timm_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "data/transform/pp.h"

namespace tessera::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

interop::TimmPreprocessing convert(const std::string& pp, int64_t side, std::vector<std::string>& notes) {
  return inference::to_timm_preprocessing(pp, {.height = side, .width = side, .classes = 2}, notes);
}

TEST(TimmPreprocessing, KeepsEverySizeThatIsResizedTo) {
  for (int64_t side = 8; side <= 384; side += 8) {
    for (int64_t resized = side; resized <= 2 * side; resized += 1 + side / 16) {
      std::vector<std::string> notes;
      const auto timm = convert(fmt::format("decode | resize_small({}) | central_crop({})", resized, side), side, notes);
      EXPECT_EQ(std::floor(static_cast<double>(side) / timm.crop_pct), resized) << side;
      EXPECT_TRUE(notes.empty());
    }
  }
}

TEST(TimmPreprocessing, GoesThereAndBack) {
  const char* chains[] = {
      "decode | resize_small(256, interpolation=bicubic) | central_crop(224) | normalise",
      "decode | resize(250, interpolation=bilinear) | central_crop(224) | value_range(-1, 1)",
      "decode | resize(224, interpolation=lanczos) | value_range(0, 1)",
  };
  for (const char* chain : chains) {
    std::vector<std::string> notes;
    const std::string back = timm_pp(convert(chain, 224, notes));
    EXPECT_TRUE(notes.empty());
    const data::Pp before(chain, data::PpUse::kEval), after(back, data::PpUse::kEval);
    EXPECT_EQ(after.width(), 224);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_FLOAT_EQ(after.pixel_scale().scale[c], before.pixel_scale().scale[c]) << chain;
      EXPECT_NEAR(after.pixel_scale().offset[c], before.pixel_scale().offset[c], 1e-6) << chain;
    }
    std::vector<std::string> again;
    EXPECT_EQ(timm_pp(convert(back, 224, again)), back);
  }
  std::vector<std::string> notes;
  const auto imagenet = convert(chains[0], 224, notes);
  EXPECT_EQ(imagenet.crop_pct, 0.875);
  EXPECT_EQ(imagenet.crop_mode, "center");
  EXPECT_EQ(imagenet.interpolation, "bicubic");
  EXPECT_THAT(imagenet.mean, ElementsAre(0.485, 0.456, 0.406));
  EXPECT_THAT(imagenet.std, ElementsAre(0.229, 0.224, 0.225));
  const auto squashed = convert(chains[1], 224, notes);
  EXPECT_EQ(squashed.crop_mode, "squash");
  EXPECT_THAT(timm_pp(squashed), HasSubstr("resize(250, 250, interpolation=bilinear) | central_crop(224, 224)"));
}

TEST(TimmPreprocessing, SaysWhatTimmCannotSay) {
  std::vector<std::string> notes;
  convert("decode | central_crop(16)", 16, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("does not resize")));
  notes.clear();
  convert("decode | resize(20, 30) | central_crop(16)", 16, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("by one factor")));
  notes.clear();
  convert("", 16, notes);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("no evaluator")));
  interop::TimmPreprocessing border;
  border.crop_mode = "border";
  EXPECT_THROW(timm_pp(border), Error);
}

TEST(TimmPreprocessing, WidthAndHeightKeepTheirOrder) {
  interop::TimmPreprocessing wide;
  wide.height = 100, wide.width = 200, wide.crop_pct = 1, wide.crop_mode = "squash";
  const data::Pp pp(timm_pp(wide), data::PpUse::kEval);
  EXPECT_EQ(pp.width(), 200);
  EXPECT_EQ(pp.height(), 100);
}

}  // namespace
}  // namespace tessera::train
