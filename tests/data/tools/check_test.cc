#include "data/tools/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "data/tools/contact_sheet.h"
#include "image/codec/png.h"
#include "image/draw.h"
#include "image/drawable_text.h"
#include "image/image_testing.h"
#include "image/resize/resize.h"

namespace tessera::data {
namespace {

using image::testing::encode_jpeg;
using image::testing::photo;
using image::testing::png_bytes;
using image::testing::TempDir;
using image::testing::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// It had counted in the class of the row before it.
TEST(CheckSource, ARowThatCannotBeReadIsOfNoClass) {
  const TempDir dir;
  write_file(dir / "x.jpg", encode_jpeg(photo(40, 30)));
  const std::string table = "image,label\nx.jpg,cat\nx.jpg,dog\nx.jpg,dog,much\nx.jpg\n";
  write_file(dir / "a.csv", {table.begin(), table.end()});
  const CheckReport report = check_source(*make_source("csv(" + (dir / "a.csv") + ")"), {}, 1);
  EXPECT_EQ(report.unreadable.size(), 2u);
  ASSERT_EQ(report.classes.size(), 2u);
  EXPECT_EQ(report.classes[0].samples, 1);
  EXPECT_EQ(report.classes[1].samples, 1);
}

TEST(CheckSource, ReportsWhatIsThere) {
  const TempDir dir;
  write_file(dir / "a/1.jpg", encode_jpeg(photo(40, 30)));
  write_file(dir / "a/2.jpg", png_bytes(photo(10, 60)));
  write_file(dir / "a/3.jpg", {});
  write_file(dir / "b/4.webp", image::testing::encode_webp(photo(25, 20), true));
  write_file(dir / "b/5.jpg", encode_jpeg(photo(40, 30)));
  write_file(dir / "b/6.txt", {'h', 'i'});
  write_file(dir / "b/7.txt", {'h', 'i'});
  const auto source = open_folder(dir.path());
  for (const int threads : {1, 3}) {
    int64_t last = 0;
    const CheckReport report = check_source(
        *source,
        [&](int64_t done, int64_t total) {
          EXPECT_EQ(total, 7);
          last = done;
          return true;
        },
        threads);
    EXPECT_EQ(last, 7);
    EXPECT_EQ(report.samples, 7);
    EXPECT_EQ(report.count(image::ImageFormat::kJpeg), 2);
    EXPECT_EQ(report.count(image::ImageFormat::kPng), 1);
    EXPECT_EQ(report.count(image::ImageFormat::kWebp), 1);
    EXPECT_EQ(report.misnamed, 1);
    EXPECT_EQ(report.with_orientation, 0);
    EXPECT_EQ(report.repairs, image::RepairCounts());
    ASSERT_EQ(report.classes.size(), 2u);
    EXPECT_EQ(report.classes[0].samples, 3);
    EXPECT_EQ(report.classes[0].unreadable, 1);
    EXPECT_EQ(report.classes[1].unreadable, 2);
    ASSERT_EQ(report.unreadable.size(), 3u);
    EXPECT_EQ(report.unreadable[0].id, "a/3.jpg");
    EXPECT_EQ(report.unreadable[0].reason, "the file is empty");
    EXPECT_EQ(report.min_width, 10);
    EXPECT_EQ(report.max_width, 40);
    EXPECT_EQ(report.min_height, 20);
    EXPECT_EQ(report.max_height, 60);
    EXPECT_EQ(report.smallest, "b/4.webp");
    EXPECT_EQ(report.largest, "a/1.jpg");
    ASSERT_EQ(report.duplicates.size(), 2u);
    EXPECT_THAT(report.duplicates[0].ids, ElementsAre("a/1.jpg", "b/5.jpg"));
    EXPECT_TRUE(report.duplicates[0].labels_differ);
    EXPECT_THAT(report.duplicates[1].ids, ElementsAre("b/6.txt", "b/7.txt"));
    EXPECT_FALSE(report.duplicates[1].labels_differ);
    EXPECT_GT(report.file_bytes, 1000u);
  }
}

TEST(ContactSheet, ShowsSamplesAndNames) {
  const TempDir dir;
  for (const char* name : {"one/1.png", "one/2.png", "two/3.png"}) write_file(dir / name, png_bytes(photo(40, 30)));
  write_file(dir / "two/4.png", {1});
  const auto source = open_folder(dir.path());
  const Pp pp("decode | resize(24)", PpUse::kEval);
  const image::Image sheet = contact_sheet(*source, pp, {.count = 4, .columns = 3, .shuffled = false});
  // Cells of 4 * 24 pixels and a gap of 4; a label of 10 rows below each.
  EXPECT_EQ(sheet.width(), 3 * 100 + 4);
  EXPECT_EQ(sheet.height(), 2 * 110 + 4);
  image::Image small(24, 24);
  image::Image large(96, 96);
  PpScratch scratch;
  Sample sample;
  ASSERT_FALSE(source->read(1, sample));
  ASSERT_FALSE(pp.run(sample.image, {}, scratch, small.row(0)));
  image::Resizer().resize(small.view(), image::Filter::kNearest, false, 96, 96, large.row(0), large.stride());
  EXPECT_EQ(image::testing::pixels(sheet.view().crop({104, 4, 96, 96})), image::testing::pixels(large.view()));
  // The unreadable one is a cross: dark on the diagonal, grey beside it.
  EXPECT_EQ(sheet.row(114 + 7)[(4 + 7) * 3], 0);
  EXPECT_EQ(sheet.row(114 + 7)[(4 + 20) * 3], 200);
  // The first name is drawn under its cell.
  image::Image label(96, 7);
  std::fill_n(label.row(0), label.byte_count(), uint8_t{255});
  image::draw_text(label, 0, 0, "one", 0);
  EXPECT_EQ(image::testing::pixels(sheet.view().crop({4, 102, 96, 7})), image::testing::pixels(label.view()));
}

TEST(ContactSheet, ShowsWhatEachImageWasMadeOf) {
  const TempDir dir;
  write_file(dir / "one/1.png", png_bytes(photo(96, 48)));
  const auto source = open_folder(dir.path());
  const Pp pp("decode | central_crop(24)", PpUse::kEval);
  std::vector<std::string> steps;
  ContactSheetOptions options{.count = 1, .shuffled = false, .before = true};
  options.shown = [&](const ShownSample& shown) {
    EXPECT_EQ(shown.index, 0);
    EXPECT_FALSE(shown.error);
    steps = shown.trace->steps;
  };
  const image::Image sheet = contact_sheet(*source, pp, options);
  EXPECT_EQ(steps, std::vector<std::string>{"crop 24x24 at (36, 12)"});
  EXPECT_EQ(sheet.width(), 2 * 96 + 2 * 4);
  // The picture, 96 x 48, in 92 x 46 pixels, with a frame from x = 36 * 92 / 96 and y = 12 * 92 / 96 on: white, inside it red.
  const int left = 4 + 35, top = 4 + 12;
  const auto pixel = [&](int x, int y) {
    return std::vector<int>(sheet.row(y) + ptrdiff_t{x} * 3, sheet.row(y) + ptrdiff_t{x} * 3 + 3);
  };
  EXPECT_EQ(pixel(left, top), (std::vector<int>{255, 255, 255}));
  EXPECT_EQ(pixel(left + 1, top + 1), (std::vector<int>{230, 0, 0}));
  EXPECT_NE(pixel(left + 2, top + 2), (std::vector<int>{230, 0, 0}));
  // The image itself is in the right half, untouched.
  image::Image small(24, 24), large(96, 96);
  PpScratch scratch;
  Sample sample;
  ASSERT_FALSE(source->read(0, sample));
  ASSERT_FALSE(pp.run(sample.image, {}, scratch, small.row(0)));
  image::Resizer().resize(small.view(), image::Filter::kNearest, false, 96, 96, large.row(0), large.stride());
  EXPECT_EQ(image::testing::pixels(sheet.view().crop({4 + 96, 4, 96, 96})), image::testing::pixels(large.view()));
}

TEST(DrawText, GlyphsAreDistinctAndClipped) {
  std::string text;
  for (char c = ' '; c <= '~'; ++c) text += c;
  std::set<std::string> shapes;
  for (const char c : text) {
    image::Image image(6, 7);
    std::fill_n(image.row(0), image.byte_count(), uint8_t{255});
    image::draw_text(image, 0, 0, std::string(1, c), 0);
    const std::vector<uint8_t> shape = image::testing::pixels(image.view());
    EXPECT_TRUE(shapes.insert({shape.begin(), shape.end()}).second) << c;
  }
  image::Image image(6, 7);
  std::fill_n(image.row(0), image.byte_count(), uint8_t{255});
  image::draw_text(image, -100, -3, text, 0);
  image::draw_text(image, 0, 0, "\x01", 0);
  EXPECT_EQ(image.row(0)[0], 0);
}

TEST(DrawText, NamesOfAnyScriptAreReadable) {
  const auto drawn = [](const std::string& name) {
    image::Image image(120, 7);
    std::fill_n(image.row(0), image.byte_count(), uint8_t{255});
    image::draw_text(image, 0, 0, name, 0);
    return image::testing::pixels(image.view());
  };
  EXPECT_NE(drawn("Strix aluco"), drawn("STRIX ALUCO"));
  EXPECT_EQ(image::drawable_text("Strix aluco~"), "Strix aluco~");
  EXPECT_EQ(image::drawable_text("Käfer Ålesund œuf"), "Kafer Alesund oeuf");
  EXPECT_EQ(image::drawable_text("Ka\xcc\x88"
                                 "fer"),
            "Kafer")
      << "as macOS writes it";
  EXPECT_EQ(image::drawable_text("кот"), "kot");
  EXPECT_EQ(image::drawable_text("猫"), "mao");
  EXPECT_EQ(image::drawable_text("a\xff"
                                 "b"),
            "a\x7f"
            "b");
  EXPECT_EQ(drawn("Käfer"), drawn("Kafer"));
}

TEST(Png, RoundTripsAndReportsFailure) {
  const TempDir dir;
  const image::Image image = photo(33, 21);
  image::write_png(dir / "x.png", image.view().crop({3, 2, 20, 10}));
  image::Image back;
  ASSERT_FALSE(image::Decoder().decode(image::testing::read_file(dir / "x.png"), back));
  EXPECT_EQ(image::testing::pixels(back.view()), image::testing::pixels(image.view().crop({3, 2, 20, 10})));
  try {
    image::write_png(dir / "none/x.png", image.view());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace tessera::data
