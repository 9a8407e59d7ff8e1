#include "data/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/image_testing.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using testing::encode_jpeg;
using testing::encode_webp;
using ::testing::HasSubstr;
using testing::JpegOptions;
using testing::photo;
using testing::pixels;
using testing::png_bytes;
using testing::read_file;

const fs::path kImages = TESSERA_SOURCE_DIR "/tests/data/images";

std::string reason(const DecodeResult& result) { return result ? result->reason : "decoded"; }

// Every image under tests/data/images is decoded to Pillow's pixels bit for bit, or refused when it has none.
TEST(Decode, EqualsPillowOnOddImages) {
  Decoder decoder;
  Image image, expected;
  int read = 0, refused = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kImages)) {
    if (entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename());
    const std::vector<uint8_t> file = read_file(entry.path());
    const DecodeResult failed = decoder.decode(file, image);
    const fs::path reference = kImages / "expected" / (entry.path().filename().string() + ".png");
    if (!fs::exists(reference)) {
      EXPECT_TRUE(failed);
      ++refused;
      continue;
    }
    ASSERT_FALSE(failed) << reason(failed);
    ASSERT_FALSE(decoder.decode(read_file(reference), expected));
    ASSERT_EQ(image.width(), expected.width());
    ASSERT_EQ(image.height(), expected.height());
    const std::vector<uint8_t> got = pixels(image.view()), want = pixels(expected.view());
    EXPECT_TRUE(got == want) << "first difference at byte "
                             << std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
    ImageInfo info;
    ASSERT_FALSE(decoder.probe(file, info));
    EXPECT_EQ(info.width, image.width());
    EXPECT_EQ(info.height, image.height());
    ++read;
  }
  EXPECT_GE(read, 30);
  EXPECT_GE(refused, 7);
}

TEST(Decode, ReasonsSayWhatIsWrong) {
  Decoder decoder;
  Image image;
  const auto why = [&](const char* name) { return reason(decoder.decode(read_file(kImages / name), image)); };
  EXPECT_EQ(why("empty.jpg"), "the file is empty");
  EXPECT_EQ(why("text.jpg"), "not a JPEG, PNG or WebP image (by its first bytes)");
  EXPECT_EQ(why("truncated.jpg"), "truncated: the JPEG data ends before the image does");
  EXPECT_EQ(why("truncated_progressive.jpg"), "truncated: the JPEG data ends before the image does");
  EXPECT_EQ(why("truncated.png"), "truncated: the PNG data ends before the image does");
  EXPECT_EQ(why("truncated.webp"), "truncated: the WebP data ends before the image does");
  EXPECT_THAT(why("damaged.png"), HasSubstr("damaged PNG: "));
  const std::vector<uint8_t> no_image = {0xFF, 0xD8, 0xFF, 0xD9};
  EXPECT_THAT(reason(decoder.decode(no_image, image)), HasSubstr("damaged JPEG: "));
  // The decoder is as good as new after every failure.
  EXPECT_EQ(why("420.jpg"), "decoded");
}

// What a file decodes to depends on its bytes alone.
TEST(Decode, TablesOfOneJpegAreNotAnothers) {
  std::vector<uint8_t> file = encode_jpeg(photo(40, 30), {.progressive = true});
  Decoder decoder, fresh;
  Image image;
  ASSERT_FALSE(decoder.decode(file, image));
  const uint8_t tables[] = {0xFF, 0xDB};
  for (auto at = file.begin(); (at = std::search(at, file.end(), tables, tables + 2)) != file.end();) at[1] = 0xFE;  // comments
  EXPECT_THAT(reason(decoder.decode(file, image)), HasSubstr("damaged JPEG: "));
  EXPECT_EQ(reason(decoder.decode(file, image)), reason(fresh.decode(file, image)));
}

TEST(Decode, FormatIsFoundByContent) {
  EXPECT_EQ(sniff_format(read_file(kImages / "jpeg_named_png.png")), ImageFormat::kJpeg);
  EXPECT_EQ(sniff_format(png_bytes(photo(3, 3))), ImageFormat::kPng);
  EXPECT_EQ(sniff_format(encode_webp(photo(3, 3), true)), ImageFormat::kWebp);
  EXPECT_EQ(sniff_format({}), ImageFormat::kUnknown);
}

TEST(Decode, LosslessFormatsReturnThePixels) {
  const Image image = photo(61, 37);
  Decoder decoder;
  Image decoded;
  for (const std::vector<uint8_t>& file : {png_bytes(image), encode_webp(image, true)}) {
    ASSERT_FALSE(decoder.decode(file, decoded));
    EXPECT_EQ(pixels(decoded.view()), pixels(image.view()));
  }
}

// The margin rule: a region is the same as the same part of the whole image, whatever the subsampling and wherever the box.
TEST(DecodeRegion, EqualsTheWholeImage) {
  std::vector<JpegOptions> kinds;
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}}) {
    kinds.push_back({.horizontal = h, .vertical = v});
    kinds.push_back({.horizontal = h, .vertical = v, .progressive = true});
  }
  kinds.push_back({.grey = true});
  kinds.push_back({.restart_rows = 1});
  Decoder decoder;
  Image whole, storage;
  for (const JpegOptions& kind : kinds) {
    for (const auto& [width, height] : {std::pair{203, 149}, {64, 48}, {35, 170}}) {
      const std::vector<uint8_t> file = encode_jpeg(photo(width, height), kind);
      ASSERT_FALSE(decoder.decode(file, whole));
      uint32_t state = 12345;
      const auto below = [&](int n) { return static_cast<int>((state = state * 1664525 + 1013904223) >> 8) % n; };
      for (int i = 0; i < 60; ++i) {
        Box box;
        box.width = 1 + below(width);
        box.height = 1 + below(height);
        box.x = below(width - box.width + 1);
        box.y = below(height - box.height + 1);
        ImageView region;
        const DecodeResult failed = decoder.decode_region(file, box, storage, region);
        ASSERT_FALSE(failed) << reason(failed);
        ASSERT_EQ(pixels(region), pixels(whole.view().crop(box)))
            << kind.horizontal << 'x' << kind.vertical << " progressive " << kind.progressive << " image " << width << 'x'
            << height << " box " << box.width << 'x' << box.height << '+' << box.x << '+' << box.y;
      }
    }
  }
}

TEST(DecodeRegion, WorksForEveryFormat) {
  const Image image = photo(61, 37);
  const Box box{7, 9, 20, 11};
  Decoder decoder;
  Image storage;
  ImageView region;
  for (const std::vector<uint8_t>& file : {png_bytes(image), encode_webp(image, true)}) {
    ASSERT_FALSE(decoder.decode_region(file, box, storage, region));
    EXPECT_EQ(pixels(region), pixels(image.view().crop(box)));
  }
}

TEST(DecodeRegion, StopsAfterItsLastRow) {
  const std::vector<uint8_t> file = encode_jpeg(photo(200, 200));
  const Bytes half(file.data(), file.size() / 2);
  Decoder decoder;
  Image image;
  ImageView region;
  EXPECT_FALSE(decoder.decode_region(half, {0, 0, 200, 20}, image, region));
  EXPECT_TRUE(decoder.decode_region(half, {0, 0, 200, 199}, image, region));
  EXPECT_TRUE(decoder.decode(half, image));
}

TEST(Decode, RefusesHugeImagesBeforeTakingMemory) {
  Decoder small(100 * 100);
  Image image;
  ImageInfo info;
  for (const std::vector<uint8_t>& file :
       {encode_jpeg(photo(101, 100)), png_bytes(photo(101, 100)), encode_webp(photo(101, 100), true)}) {
    EXPECT_EQ(reason(small.decode(file, image)), "101x100 pixels are more than the limit of 10000");
    EXPECT_EQ(reason(small.probe(file, info)), "101x100 pixels are more than the limit of 10000");
  }
  EXPECT_EQ(image.capacity(), 0u);
  EXPECT_FALSE(small.decode(encode_jpeg(photo(100, 100)), image));
}

TEST(Image, KeepsItsMemoryUnlessItWasHuge) {
  Image image(100, 100);
  image.reset(10, 10);
  EXPECT_EQ(image.capacity(), 30000u);
  image.reset(8000, 4000);
  image.reset(10, 10);
  EXPECT_EQ(image.capacity(), 300u);
}

}  // namespace
}  // namespace tessera::data
