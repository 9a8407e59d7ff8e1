#include "image/resize/resize.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "data/transform/pp.h"
#include "image/image_testing.h"
#include "support/paths.h"
#include "support/safetensors_reader.h"

namespace tessera::image {
namespace {

using testing::formula_image;

const tessera::testing::ReferenceFile& references() {
  static const auto file =
      tessera::testing::read_references(tessera::testing::source_path("tests/references/resize.safetensors"));
  return file;
}

std::vector<uint8_t> resized(const ImageView& from, Filter filter, bool mirror, int width, int height, bool plain) {
  std::vector<uint8_t> out(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  if (plain) {
    resize_plain(from, filter, mirror, width, height, out.data(), width * 3);
  } else {
    Resizer().resize(from, filter, mirror, width, height, out.data(), width * 3);
  }
  return out;
}

// Every committed case of Pillow's Image.resize, bit for bit.
TEST(Resize, EqualsPillow) {
  int compared = 0;
  for (const auto& [name, entry] : references().config.at("cases").items()) {
    if (!entry.at("box").is_null()) continue;  // resize(box=…) looks past the box, which no op here does
    const Image image = formula_image("resize/" + name, entry.at("in")[0], entry.at("in")[1]);
    const int width = entry.at("out")[0], height = entry.at("out")[1];
    for (const Filter filter : {Filter::kBox, Filter::kBilinear, Filter::kHamming, Filter::kBicubic, Filter::kLanczos}) {
      const std::string key = std::string(filter_name(filter)) + "/" + name;
      SCOPED_TRACE(key);
      const std::vector<uint8_t>& expected = references().tensors.at(key).bytes;
      EXPECT_EQ(resized(image.view(), filter, false, width, height, false), expected);
      EXPECT_EQ(resized(image.view(), filter, false, width, height, true), expected);
      ++compared;
    }
  }
  EXPECT_GE(compared, 13 * 5);
}

// timm's evaluation transform: resize_small and central_crop, through a whole chain.
TEST(Resize, EvalChainEqualsTimm) {
  for (const auto& [name, entry] : references().config.at("eval").items()) {
    SCOPED_TRACE(name);
    const int size = entry.at("img_size");
    const double crop_pct = references().config.at("crop_pct");
    const Image image = formula_image("eval/" + name, entry.at("in")[0], entry.at("in")[1]);
    const data::Pp pp(fmt::format("decode | resize_small({}, {}) | central_crop({})", static_cast<int>(size / crop_pct),
                                  entry.at("interpolation").get<std::string>(), size),
                      data::PpUse::kEval);
    data::PpScratch scratch;
    std::vector<uint8_t> out(pp.image_bytes());
    ASSERT_FALSE(pp.run(testing::png_bytes(image), {}, scratch, out.data()));
    EXPECT_EQ(out, references().tensors.at("eval/" + name).bytes);
  }
}

void compare_with_plain() {
  const int sizes[][4] = {{1, 1, 1, 1},      {5, 3, 7, 11},     {33, 65, 16, 31}, {101, 7, 13, 50}, {64, 64, 63, 65},
                          {300, 200, 37, 5}, {2, 200, 31, 100}, {17, 17, 224, 3}, {97, 1, 1, 97}};
  for (const auto& s : sizes) {
    const Image image = formula_image("plain", s[0], s[1]);
    for (int f = 0; f <= static_cast<int>(Filter::kLanczos); ++f) {
      for (const bool mirror : {false, true}) {
        const auto filter = static_cast<Filter>(f);
        EXPECT_EQ(resized(image.view(), filter, mirror, s[2], s[3], false),
                  resized(image.view(), filter, mirror, s[2], s[3], true))
            << filter_name(filter) << ' ' << s[0] << 'x' << s[1] << " to " << s[2] << 'x' << s[3] << " mirror " << mirror;
      }
    }
  }
}

TEST(Resize, VectorEqualsPlain) { testing::on_every_target(compare_with_plain); }

TEST(Resize, SeesOnlyTheCrop) {
  const Image image = formula_image("crop", 40, 30);
  const ImageView view = image.view().crop({5, 4, 24, 16});
  Image alone(24, 16);
  copy_image(view, false, alone.row(0), alone.stride());
  EXPECT_EQ(resized(view, Filter::kBicubic, false, 9, 31, false), resized(alone.view(), Filter::kBicubic, false, 9, 31, false));
}

TEST(Resize, MirrorReversesTheResult) {
  const Image image = formula_image("mirror", 40, 30);
  const std::vector<uint8_t> straight = resized(image.view(), Filter::kBilinear, false, 13, 9, false);
  std::vector<uint8_t> turned(straight.size());
  Image result(13, 9);
  std::copy(straight.begin(), straight.end(), result.row(0));
  copy_image(result.view(), true, turned.data(), 13 * 3);
  EXPECT_EQ(resized(image.view(), Filter::kBilinear, true, 13, 9, false), turned);
}

TEST(Resize, WritesNothingBesideItsRows) {
  const Image image = formula_image("stride", 20, 20);
  std::vector<uint8_t> out(10 * 40, 77);
  Resizer().resize(image.view(), Filter::kBilinear, false, 11, 10, out.data(), 40);
  for (size_t y = 0; y < 10; ++y) {
    for (size_t i = 33; i < 40; ++i) EXPECT_EQ(out[y * 40 + i], 77);
  }
}

TEST(Resize, ReusedScratchGivesTheSame) {
  Resizer resizer;
  for (int round = 0; round < 3; ++round) {
    for (int size = 3; size < 60; size += 7) {
      const Image image = formula_image("again", size * 2, size);
      std::vector<uint8_t> out(16 * 16 * 3);
      resizer.resize(image.view(), Filter::kBicubic, false, 16, 16, out.data(), 16 * 3);
      EXPECT_EQ(out, resized(image.view(), Filter::kBicubic, false, 16, 16, true)) << size;
    }
  }
}

TEST(Resize, FilterNames) {
  for (const std::string& name : filter_names()) EXPECT_EQ(filter_name(*parse_filter(name)), name);
  EXPECT_FALSE(parse_filter("linear"));
}

}  // namespace
}  // namespace tessera::image
