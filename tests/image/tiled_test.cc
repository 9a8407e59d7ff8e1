#include <gtest/gtest.h>

#include <vector>

#include "image/draw.h"

namespace tessera::image {
namespace {

// Five pictures of 2 x 1: three in a row, and what is left of the second row is black.
TEST(Tiled, PicturesStandInRows) {
  std::vector<uint8_t> pixels;
  for (uint8_t picture = 1; picture <= 5; ++picture) {
    for (uint8_t i = 0; i < 6; ++i) pixels.push_back(static_cast<uint8_t>(10 * picture + i));
  }
  const Image sheet = tiled(pixels.data(), 5, 2, 1);
  ASSERT_EQ(sheet.width(), 6);
  ASSERT_EQ(sheet.height(), 2);
  const std::vector<uint8_t> first(sheet.row(0), sheet.row(0) + 18), second(sheet.row(1), sheet.row(1) + 18);
  EXPECT_EQ(first, std::vector<uint8_t>(pixels.begin(), pixels.begin() + 18));
  std::vector<uint8_t> rest(pixels.begin() + 18, pixels.end());
  rest.resize(18);
  EXPECT_EQ(second, rest);
}

TEST(Tiled, OfNothingAndOfTooMuchThereIsNothing) {
  const uint8_t pixel = 0;
  EXPECT_EQ(tiled(&pixel, 0, 8, 8).height(), 0);
  EXPECT_EQ(tiled(&pixel, 1, 4001, 4000).height(), 0);
}

}  // namespace
}  // namespace tessera::image
