#include "image/codec/decode.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "data/transform/pp.h"
#include "image/codec/exif.h"
#include "image/image_testing.h"
#include "support/paths.h"

namespace tessera::image {
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

const fs::path kImages = tessera::testing::source_path("tests/image/images");

std::string reason(const SampleError& result) { return result ? result->reason : "decoded"; }

// Every image under tests/image/images is decoded to Pillow's pixels bit for bit, or refused when it has none.
TEST(Decode, EqualsPillowOnOddImages) {
  Decoder decoder;
  Image image, expected;
  int read = 0, refused = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kImages)) {
    if (entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename());
    const std::vector<uint8_t> file = read_file(entry.path());
    const SampleError failed = decoder.decode(file, image);
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
  EXPECT_GE(read, 95);
  EXPECT_GE(refused, 18);
}

TEST(Decode, ReasonsSayWhatIsWrong) {
  Decoder decoder;
  Image image;
  const auto why = [&](const char* name) { return reason(decoder.decode(read_file(kImages / name), image)); };
  EXPECT_EQ(why("empty.jpg"), "the file is empty");
  EXPECT_EQ(why("text.jpg"), "not a JPEG, PNG, WebP, BMP, GIF or TIFF image (by its first bytes)");
  const auto why_of = [&](std::string_view bytes) {
    return reason(decoder.decode(std::vector<uint8_t>(bytes.begin(), bytes.end()), image));
  };
  using std::string_view_literals::operator""sv;
  EXPECT_EQ(why_of("\0\0\0\x18"
                   "ftypheic\0\0"sv),
            "a HEIC image, which is not read; convert it to JPEG");
  EXPECT_EQ(why_of("\0\0\0\x18"
                   "ftypavif\0\0"sv),
            "an AVIF image, which is not read; convert it to JPEG");
  EXPECT_THAT(why_of("\0\0\0\x18"
                     "ftypmp42\0\0"sv),
              HasSubstr("by its first bytes"));
  EXPECT_THAT(why_of("\0\0\0\x18"
                     "ftyp"sv),
              HasSubstr("by its first bytes"));
  EXPECT_EQ(why("truncated.jpg"), "truncated: the JPEG data ends before the image does");
  EXPECT_EQ(why("truncated_progressive.jpg"), "truncated: the JPEG data ends before the image does");
  EXPECT_EQ(why("truncated.png"), "truncated: the PNG data ends before the image does");
  EXPECT_EQ(why("truncated.webp"), "truncated: the WebP data ends before the image does");
  EXPECT_THAT(why("damaged.png"), HasSubstr("damaged PNG: "));
  EXPECT_EQ(why("truncated.bmp"), "truncated: the BMP data ends before the image does");
  EXPECT_EQ(why("truncated_rle8.bmp"), "truncated: the BMP data ends before the image does");
  EXPECT_EQ(why("12bit.bmp"), "a BMP of 12 bits a pixel, which is not supported");
  EXPECT_EQ(why("odd_masks.bmp"), "a BMP with masks of colours that are not supported");
  EXPECT_EQ(why("truncated.gif"), "truncated: the GIF data ends before the image does");
  EXPECT_EQ(why("no_frame.gif"), "damaged GIF: it has no frame");
  EXPECT_THAT(why("damaged.gif"), HasSubstr("damaged GIF: "));
  EXPECT_THAT(why("truncated.tif"), HasSubstr("damaged TIFF: "));
  EXPECT_EQ(why("float.tif"), "a TIFF of numbers that are not unsigned, which is not supported");
  EXPECT_EQ(why("lab.tif"), "a TIFF with colours of kind 8, which is not supported");
  EXPECT_THAT(why("no_size.tif"), HasSubstr("damaged TIFF: "));
  const std::vector<uint8_t> no_image = {0xFF, 0xD8, 0xFF, 0xD9};
  EXPECT_THAT(reason(decoder.decode(no_image, image)), HasSubstr("damaged JPEG: "));
  // The decoder is as good as new after every failure.
  EXPECT_EQ(why("420.jpg"), "decoded");
}

TEST(Decode, FormatsByName) {
  EXPECT_EQ(format_of_name("a/b.JPeG"), ImageFormat::kJpeg);
  EXPECT_EQ(format_of_name("b.c.tif"), ImageFormat::kTiff);
  EXPECT_EQ(format_of_name("b.TIFF"), ImageFormat::kTiff);
  EXPECT_EQ(format_of_name(".bmp"), ImageFormat::kBmp);
  for (const char* name : {"", "png", "a.png/b", "a.png.txt", "a.", "a.heic"}) {
    EXPECT_EQ(format_of_name(name), ImageFormat::kUnknown) << name;
  }
  for (const ImageFormat format : kFileFormats) {
    ASSERT_FALSE(format_endings(format).empty());
    for (const std::string_view ending : format_endings(format)) EXPECT_EQ(format_of_name(fmt::format("x.{}", ending)), format);
  }
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

// Runs a chain of one sample, whose pictures the references have in their own size.
SampleError run_chain(const std::string& decode, const std::string& name, const Image& like, Image& image, Repairs& repairs) {
  const data::Pp pp(fmt::format("{} | resize({}, {}, interpolation=nearest)", decode, like.width(), like.height()),
                    data::PpUse::kEval);
  data::PpScratch scratch;
  image.reset(like.width(), like.height());
  SampleError failed = pp.run(read_file(kImages / name), {}, scratch, image.row(0));
  repairs = scratch.repairs;
  return failed;
}

// Every image under expected/<folder> is what the chain makes of the file of its name, and has that repair.
void expect_references(const std::string& folder, const std::string& decode, Repair repair,
                       const std::set<std::string>& without) {
  Image image, expected;
  Repairs repairs;
  for (const fs::directory_entry& entry : fs::directory_iterator(kImages / "expected" / folder)) {
    const std::string name = entry.path().stem();
    SCOPED_TRACE(name);
    ASSERT_FALSE(Decoder().decode(read_file(entry.path()), expected));
    const SampleError failed = run_chain(decode, name, expected, image, repairs);
    ASSERT_FALSE(failed) << reason(failed);
    // The smoothing of detail that a progressive file lacks was changed after libjpeg-turbo 2.1, which Debian has.
    const int most = name == "truncated_progressive.jpg" ? 1 : 0;
    const std::vector<uint8_t> got = pixels(image.view()), want = pixels(expected.view());
    EXPECT_TRUE(std::ranges::equal(got, want, [most](int a, int b) { return std::abs(a - b) <= most; }));
    EXPECT_EQ(repairs.has(repair), !without.contains(name));
  }
}

TEST(Decode, TurnsPicturesUprightAsPillowDoes) {
  expect_references("upright", "decode(exif=apply)", Repair::kTurned, {"exif_1.jpg", "exif_9.jpg", "no_exif.jpg"});
  for (const char* name : {"exif_5.jpg", "exif_5.png", "exif_5.webp"}) {
    const std::vector<uint8_t> file = read_file(kImages / name);
    EXPECT_EQ(exif_orientation(file), 5) << name;
    // Whatever is cut off or changed, it is a number from 1 to 8.
    for (size_t i = 0; i < file.size(); ++i) {
      std::vector<uint8_t> cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(i)), changed = file;
      changed[i] ^= 0xFF;
      for (const auto& bytes : {cut, changed}) {
        EXPECT_GE(exif_orientation(bytes), 1);
        EXPECT_LE(exif_orientation(bytes), 8);
      }
    }
  }
}

TEST(Decode, FillsTruncatedJpegsAsPillowDoes) {
  expect_references("filled", "decode(truncated=fill)", Repair::kFilled, {});
  Image like(60, 40), image;
  Repairs repairs;
  for (const char* name : {"truncated.png", "truncated.webp", "empty.jpg"}) {
    EXPECT_TRUE(run_chain("decode(truncated=fill)", name, like, image, repairs)) << name;
  }
  std::vector<uint8_t> file = read_file(kImages / "420.jpg");
  for (const size_t size : {size_t{3}, size_t{100}, size_t{300}}) {  // the header is not whole
    const data::Pp pp("decode(truncated=fill) | resize(8)", data::PpUse::kEval);
    data::PpScratch scratch;
    std::vector<uint8_t> out(pp.image_bytes());
    EXPECT_THAT(reason(pp.run(ByteSpan(file).first(size), {}, scratch, out.data())), HasSubstr("truncated: "));
  }
}

TEST(Decode, RepairsAreTold) {
  Decoder decoder;
  Image image;
  RepairCounts counts;
  for (const fs::directory_entry& entry : fs::directory_iterator(kImages)) {
    if (entry.is_directory() || decoder.decode(read_file(entry.path()), image)) continue;
    counts.add(decoder.repairs());
  }
  EXPECT_EQ(counts.of(Repair::kInk), 3);
  EXPECT_EQ(counts.of(Repair::kAlpha), 13);
  EXPECT_EQ(counts.of(Repair::kSixteenBits), 8);
  EXPECT_EQ(counts.of(Repair::kFilled), 0);
  EXPECT_EQ(counts.of(Repair::kTurned), 7);  // TIFF alone: the others' orientation is the chain's business
  EXPECT_EQ(counts.text(),
            "7 turned as their EXIF says; 3 in CMYK or YCCK, made RGB; 13 with transparency, dropped; "
            "8 of 16 bits a channel, made 8");
  // A restart marker too many is damage that libjpeg decodes past.
  std::vector<uint8_t> file = encode_jpeg(photo(60, 50));
  file.insert(file.end() - 60, {0xFF, 0xD3});
  ASSERT_FALSE(decoder.decode(file, image));
  EXPECT_TRUE(decoder.repairs().has(Repair::kDamaged));
}

TEST(Decode, ChoicesAreChecked) {
  try {
    const data::Pp pp("decode(exif=yes) | resize(8)", data::PpUse::kEval, "data.pp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("exif is ignore or apply, not `yes`"));
    EXPECT_THAT(error.what(), HasSubstr("data.pp"));
  }
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
        const SampleError failed = decoder.decode_region(file, box, storage, region);
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
  const ByteSpan half(file.data(), file.size() / 2);
  Decoder decoder;
  Image image;
  ImageView region;
  EXPECT_FALSE(decoder.decode_region(half, {0, 0, 200, 20}, image, region));
  EXPECT_TRUE(decoder.decode_region(half, {0, 0, 200, 199}, image, region));
  EXPECT_TRUE(decoder.decode(half, image));
}

TEST(Decode, RefusesHugeImagesBeforeTakingMemory) {
  Decoder small({.pixels = 100 * 100});
  Image image;
  ImageInfo info;
  for (const std::vector<uint8_t>& file :
       {encode_jpeg(photo(101, 100)), png_bytes(photo(101, 100)), encode_webp(photo(101, 100), true)}) {
    EXPECT_EQ(reason(small.decode(file, image)), "101x100 pixels are over the limit of 10000");
    EXPECT_EQ(reason(small.probe(file, info)), "101x100 pixels are over the limit of 10000");
  }
  EXPECT_EQ(image.capacity(), 0u);
  EXPECT_FALSE(small.decode(encode_jpeg(photo(100, 100)), image));
}

// Black, as a BMP of one row.
std::vector<uint8_t> one_row(uint32_t width) {
  constexpr uint32_t kHeader = 54;
  const uint32_t row = (3 * width + 3) / 4 * 4;
  std::vector<uint8_t> file(kHeader + row);
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<uint8_t>(value >> 8 * i);
  };
  file[0] = 'B', file[1] = 'M';
  put(2, kHeader + row);
  put(10, kHeader);
  put(14, 40);  // of the second header
  put(18, width);
  put(22, 1);
  put(26, 1 | 24 << 16);  // planes, bits of a pixel
  put(34, row);
  return file;
}

TEST(Decode, RefusesSidesThatResizingCouldNotTake) {
  Decoder decoder;
  Image image;
  ImageInfo info;
  EXPECT_FALSE(decoder.decode(one_row(kMaxSide), image));
  EXPECT_EQ(image.width(), kMaxSide);
  const std::vector<uint8_t> longer = one_row(kMaxSide + 1);
  EXPECT_EQ(reason(decoder.decode(longer, image)), "1048577x1 pixels: a side is over the limit of 1048576");
  EXPECT_EQ(reason(decoder.probe(longer, info)), "1048577x1 pixels: a side is over the limit of 1048576");
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
}  // namespace tessera::image
