// The JPEG decoder of our own against libjpeg: the same pixels, and libjpeg's word wherever a file isn't as usual.

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <filesystem>

#include "base/rng.h"
#include "image/codec/codecs.h"
#include "image/image_testing.h"
#include "image/jpeg/fast_jpeg.h"
#include "support/paths.h"

namespace tessera::image {
namespace {

using testing::encode_jpeg;
using testing::formula_image;
using testing::JpegOptions;
using testing::photo;
using testing::pixels;
using testing::read_file;

using File = std::vector<uint8_t>;

const std::filesystem::path kImages = tessera::testing::source_path("tests/image/images");

// Those that the decoder of our own takes.
std::vector<JpegOptions> samplings() {
  return {{.horizontal = 1, .vertical = 1},
          {.horizontal = 2, .vertical = 1},
          {.horizontal = 2, .vertical = 2},
          {.horizontal = 1, .vertical = 2},
          {.grey = true}};
}

class UsualJpegTest : public ::testing::Test {
 protected:
  // Whether the decoder of our own took the file; it and the one that chooses must then have the library's pixels.
  bool compare(const File& file, const Box* box = nullptr) {
    ImageView want, got;
    const SampleError failed = library_.decode(file, meter_, box, library_image_, want);
    JpegHeader header;
    const bool taken = read_usual_header(file, header) && decode_usual(file, header, box);
    EXPECT_FALSE(taken && failed) << failed->reason;
    if (taken && !failed) expect_equal(image_.view(), want);
    const SampleError chosen = both_.decode(file, meter_, box, image_, got);
    EXPECT_EQ(chosen.has_value(), failed.has_value());
    if (chosen && failed) {
      EXPECT_EQ(chosen->reason, failed->reason);
    }
    if (!chosen && !failed) expect_equal(got, want);
    return taken;
  }

  bool decode_usual(const File& file, const JpegHeader& header, const Box* box) {
    usual_.start(file, header, box, image_);
    if (!usual_.done()) FastJpeg::run(usual_, nullptr);
    return usual_.ok();
  }

  void compare_qualities(int step, bool must_take);

  static void expect_equal(const ImageView& got, const ImageView& want) {
    ASSERT_EQ(got.width, want.width);
    ASSERT_EQ(got.height, want.height);
    const File a = pixels(got), b = pixels(want);
    ASSERT_TRUE(a == b) << "first difference in byte " << std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  }

 private:
  JpegDecoder library_{true}, both_;
  FastJpeg usual_;
  DecodeMeter meter_{{}, nullptr};
  Image image_, library_image_;
};

std::string describe(const JpegOptions& options, int width, int height) {
  return fmt::format("{}x{} quality {} chroma {}x{}{}", width, height, options.quality, options.horizontal, options.vertical,
                     options.grey ? " grey" : "");
}

Image picture(int kind, int width, int height) {
  return kind % 2 ? formula_image("noise", width, height) : photo(width, height);
}

void UsualJpegTest::compare_qualities(int step, bool must_take) {
  for (JpegOptions options : samplings()) {
    for (int quality = 1; quality <= 100; quality += step) {
      options.quality = quality;
      options.optimised = quality % 3 == 0;
      options.restart_mcus = quality % 5 == 0 ? static_cast<unsigned>(quality / 5) : 0;
      for (int kind = 0; kind < 2; ++kind) {
        SCOPED_TRACE(describe(options, 83, 59));
        EXPECT_GE(compare(encode_jpeg(picture(kind, 83, 59), options)), must_take);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(UsualJpegTest, EqualsTheLibraryAtEverySize) {
  constexpr int kSides[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 18, 31, 33, 40};
  for (JpegOptions options : samplings()) {
    for (int side = 1; side <= 40; ++side) {
      for (const int other : kSides) {
        for (const auto& [width, height] : {std::pair{side, other}, {other, side}}) {
          options.quality = 1 + (side * 31 + other * 17) % 100;
          SCOPED_TRACE(describe(options, width, height));
          const bool repeats = !options.grey && options.horizontal == 2 && width <= 4;
          EXPECT_NE(compare(encode_jpeg(picture(side, width, height), options)), repeats);
        }
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(UsualJpegTest, EqualsTheLibraryAtEveryQuality) { compare_qualities(1, true); }

// On every instruction set of this processor that the vector code is compiled for. Without vectors it may take nothing.
TEST_F(UsualJpegTest, EqualsTheLibraryOnEveryInstructionSet) {
  constexpr int64_t kVectors = HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_NEON;
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    compare_qualities(9, (target & kVectors) != 0);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TEST_F(UsualJpegTest, EqualsTheLibraryInEveryBox) {
  Rng rng(1);
  const auto below = [&](int n) { return static_cast<int>(rng.below(static_cast<uint64_t>(n))); };
  for (JpegOptions options : samplings()) {
    for (const unsigned restart : {0u, 1u, 7u}) {
      options.restart_mcus = restart;
      options.optimised = restart == 7;
      options.quality = 60 + below(40);
      for (const auto& [width, height] : {std::pair{203, 149}, {64, 48}, {35, 170}, {500, 333}}) {
        const File file = encode_jpeg(picture(below(2), width, height), options);
        for (int i = 0; i < 20; ++i) {
          Box box{0, 0, 1 + below(width), 1 + below(height)};
          box.x = below(width - box.width + 1);
          box.y = below(height - box.height + 1);
          SCOPED_TRACE(describe(options, width, height) + fmt::format(" box {}x{}+{}+{}", box.width, box.height, box.x, box.y));
          EXPECT_TRUE(compare(file, &box));
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(UsualJpegTest, TakesTheUsualOnesOfTheOddImages) {
  const std::vector<std::string> taken = {"420.jpg",       "422.jpg",     "444.jpg",          "jpeg_named_png.png", "grey.jpg",
                                          "optimised.jpg", "restart.jpg", "rotated_exif.jpg", "no_exif.jpg"};
  for (const auto& entry : std::filesystem::directory_iterator(kImages)) {
    const std::string name = entry.path().filename();
    if (entry.is_directory() || sniff_format(read_file(entry.path())) != ImageFormat::kJpeg) continue;
    SCOPED_TRACE(name);
    const bool usual = name.starts_with("exif_") || std::find(taken.begin(), taken.end(), name) != taken.end();
    EXPECT_EQ(compare(read_file(entry.path())), usual);
  }
}

TEST_F(UsualJpegTest, LeavesTheOthersToTheLibrary) {
  for (const JpegOptions& options : {JpegOptions{.progressive = true},
                                     {.arithmetic = true},
                                     {.horizontal = 1, .vertical = 1, .rgb = true},
                                     {.horizontal = 4, .vertical = 1},
                                     {.horizontal = 4, .vertical = 2},
                                     {.horizontal = 1, .vertical = 4}}) {
    SCOPED_TRACE(describe(options, 60, 50));
    EXPECT_FALSE(compare(encode_jpeg(photo(60, 50), options)));
  }
}

// Where a segment of this marker starts.
size_t find_segment(const File& file, uint8_t marker) {
  const uint8_t bytes[] = {0xFF, marker};
  return static_cast<size_t>(std::search(file.begin(), file.end(), bytes, bytes + 2) - file.begin());
}

TEST_F(UsualJpegTest, SettlesColourAsTheLibraryDoes) {
  const File file = encode_jpeg(photo(60, 50));
  const size_t app0 = find_segment(file, 0xE0), frame = find_segment(file, 0xC0), scan = find_segment(file, 0xDA);
  // Without the JFIF segment, the components' numbers decide.
  File bare = file;
  bare[app0 + 4] = 'X';
  EXPECT_TRUE(compare(bare));
  for (const char* names : {"RGB", "abc", "\1\1\2"}) {
    File renamed = bare, jfif = file;
    for (File* f : {&renamed, &jfif}) {
      for (size_t c = 0; c < 3; ++c) (*f)[frame + 10 + 3 * c] = (*f)[scan + 5 + 2 * c] = static_cast<uint8_t>(names[c]);
    }
    SCOPED_TRACE(names);
    EXPECT_FALSE(compare(renamed));
    EXPECT_EQ(compare(jfif), names[0] != '\1');
  }
  // Adobe's segment, after JFIF's or instead of it.
  for (int transform = 0; transform < 3; ++transform) {
    const File adobe = {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, static_cast<uint8_t>(transform)};
    File instead = bare, after = file;
    instead.insert(instead.begin() + 2, adobe.begin(), adobe.end());
    after.insert(after.begin() + 2, adobe.begin(), adobe.end());
    SCOPED_TRACE(transform);
    EXPECT_EQ(compare(instead), transform == 1);
    EXPECT_TRUE(compare(after));
  }
}

// A file whose segments of this marker went through change(), which gets what follows their length.
template <class Change>
File with_changed_segments(const File& file, uint8_t marker, Change change) {
  File result(file.begin(), file.begin() + 2);
  for (size_t at = 2; at < file.size();) {
    const bool scan = file[at + 1] == 0xDA;
    const size_t length = scan ? file.size() - at - 2 : static_cast<size_t>(file[at + 2] << 8 | file[at + 3]);
    const auto begin = file.begin() + static_cast<ptrdiff_t>(at), end = begin + 2 + static_cast<ptrdiff_t>(length);
    at += 2 + length;
    if (begin[1] != marker) {
      result.insert(result.end(), begin, end);
      continue;
    }
    const File body = change(File(begin + 4, end));
    result.insert(result.end(),
                  {0xFF, marker, static_cast<uint8_t>((body.size() + 2) >> 8), static_cast<uint8_t>(body.size() + 2)});
    result.insert(result.end(), body.begin(), body.end());
  }
  return result;
}

TEST_F(UsualJpegTest, TakesTablesInEveryForm) {
  Image slope(83, 59);  // has none of the higher coefficients, so that their steps may be anything
  for (int i = 0; i < 59 * 83 * 3; ++i) slope.row(0)[i] = static_cast<uint8_t>(i / 3 % 83 + i / 249);
  const File file = encode_jpeg(slope, {.quality = 95});
  // Steps of two bytes, some beyond one.
  for (const int factor : {1, 300}) {
    const File wide = with_changed_segments(file, 0xDB, [&](const File& body) {
      File result = {static_cast<uint8_t>(body[0] | 0x10)};
      for (size_t i = 1; i < body.size(); ++i) {
        const int step = i > 40 ? body[i] * factor : body[i];
        result.insert(result.end(), {static_cast<uint8_t>(step >> 8), static_cast<uint8_t>(step)});
      }
      return result;
    });
    EXPECT_TRUE(compare(wide)) << factor;
  }
  // All Huffman tables in one segment, and then once more with other numbers, which nothing uses.
  File tables;
  with_changed_segments(file, 0xC4, [&](const File& body) {
    tables.insert(tables.end(), body.begin(), body.end());
    return body;
  });
  for (const uint8_t moved : {0, 2}) {
    File joined = file;
    File segment = {0xFF, 0xC4, static_cast<uint8_t>((tables.size() + 2) >> 8), static_cast<uint8_t>(tables.size() + 2)};
    segment.insert(segment.end(), tables.begin(), tables.end());
    segment[4] = static_cast<uint8_t>(segment[4] + moved);
    joined.insert(joined.begin() + static_cast<ptrdiff_t>(find_segment(file, 0xDA)), segment.begin(), segment.end());
    EXPECT_TRUE(compare(joined));
  }
  File extended = file;
  extended[find_segment(file, 0xC0) + 1] = 0xC1;
  EXPECT_TRUE(compare(extended));
  File lossless = file;
  lossless[find_segment(file, 0xC0) + 1] = 0xC3;
  EXPECT_FALSE(compare(lossless));
}

TEST_F(UsualJpegTest, TablesThatAreNoCodeAreTheLibrarys) {
  const File file = encode_jpeg(photo(83, 59));
  for (size_t at = 0; at < 17 + 12; ++at) {
    for (const int value : {0, 1, 15, 16, 255}) {
      File changed = file;
      changed[find_segment(file, 0xC4) + 4 + at] = static_cast<uint8_t>(value);
      SCOPED_TRACE(fmt::format("byte {} is {}", at, value));
      compare(changed);
    }
  }
}

// Steps that the file's coefficients weren't made with: whatever the samples come to, they are the library's.
TEST_F(UsualJpegTest, CoefficientsOutOfRangeAreTheLibrarys) {
  int taken = 0, left = 0;
  for (const JpegOptions& kind : samplings()) {
    for (const int quality : {75, 95, 100}) {
      JpegOptions options = kind;
      options.quality = quality;
      for (const int step : {1, 2, 5, 9, 14, 20, 30, 45, 70, 110, 180, 255}) {
        for (int noise = 0; noise < 2; ++noise) {
          File file = encode_jpeg(picture(noise, 83, 59), options);
          const size_t table = find_segment(file, 0xDB) + 5;
          for (size_t i = 0; i < 64; ++i) file[table + i] = static_cast<uint8_t>(std::min(255, file[table + i] * step));
          SCOPED_TRACE(describe(options, 83, 59) + fmt::format(" step {} noise {}", step, noise));
          (compare(file) ? taken : left) += 1;
        }
      }
    }
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(left, 20);
}

TEST_F(UsualJpegTest, DataMustEndWhereTheImageDoes) {
  for (const JpegOptions& options : {JpegOptions{}, JpegOptions{.restart_mcus = 3}}) {
    const File file = encode_jpeg(photo(90, 70), options);
    ASSERT_TRUE(compare(file));
    const auto with = [&](size_t from_end, std::initializer_list<uint8_t> bytes) {
      File changed = file;
      changed.insert(changed.end() - static_cast<ptrdiff_t>(from_end), bytes);
      return changed;
    };
    EXPECT_FALSE(compare(with(2, {0})));           // a byte too many
    EXPECT_FALSE(compare(with(2, {0xFF, 0xD0})));  // a marker too many
    EXPECT_FALSE(compare(with(2, {0xFF})));        // a fill byte
    EXPECT_TRUE(compare(with(0, {1, 2, 3})));      // after the image anything may stand
    for (const size_t lost : {1, 2, 3, 10, 60}) {
      File cut(file.begin(), file.end() - static_cast<ptrdiff_t>(lost));
      EXPECT_FALSE(compare(cut));
      cut.insert(cut.end(), {0xFF, 0xD9});
      EXPECT_EQ(compare(cut), lost == 2) << lost;
    }
  }
}

// One of several files, some of them odd or damaged, and a box of it.
struct Task {
  File file;
  Box box;
};

std::vector<Task> mixed_tasks() {
  std::vector<Task> tasks;
  Rng rng(7);
  const auto below = [&](int n) { return static_cast<int>(rng.below(static_cast<uint64_t>(n))); };
  for (int i = 0; i < 60; ++i) {
    const int width = 20 + below(150), height = 20 + below(150);
    JpegOptions options = samplings()[static_cast<size_t>(below(5))];
    options.quality = 50 + below(50);
    options.optimised = below(2);
    options.restart_mcus = below(3) ? 0 : static_cast<unsigned>(1 + below(9));
    options.progressive = below(8) == 0;
    Task task{encode_jpeg(picture(i, width, height), options), {0, 0, 1 + below(width), 1 + below(height)}};
    task.box.x = below(width - task.box.width + 1);
    task.box.y = below(height - task.box.height + 1);
    if (below(5) == 0)
      task.file[task.file.size() * static_cast<size_t>(2 + below(7)) / 10] ^= static_cast<uint8_t>(1 + below(255));
    if (below(9) == 0) task.file.resize(task.file.size() / 2);
    if (below(9) == 0) task.file = testing::png_bytes(picture(i, width, height));
    tasks.push_back(std::move(task));
  }
  return tasks;
}

// A decoder at work on a task.
struct TaskLane {
  Decoder decoder;
  Image storage;
  size_t task = 0;
  bool busy = false;
};

TEST(TwoJpegsTogether, EqualEachAlone) {
  const std::vector<Task> tasks = mixed_tasks();
  TaskLane lanes[2];
  lanes[0].decoder.share_tables(lanes[1].decoder);
  Decoder alone;
  Image storage;
  int good = 0, bad = 0, together = 0;
  const auto finish = [&](TaskLane& lane) {
    const Task& task = tasks[lane.task];
    ImageView got, want;
    const SampleError failed = lane.decoder.finish_region(got);
    const SampleError expected = alone.decode_region(task.file, task.box, storage, want);
    ASSERT_EQ(failed.has_value(), expected.has_value()) << lane.task;
    if (failed) {
      EXPECT_EQ(failed->reason, expected->reason);
    } else {
      EXPECT_TRUE(pixels(got) == pixels(want)) << lane.task;
    }
    (failed ? bad : good) += 1;
    lane.busy = false;
  };
  for (size_t next = 0;;) {
    for (TaskLane& lane : lanes) {
      while (lane.busy ? !lane.decoder.decoding() : next < tasks.size()) {
        if (lane.busy) {
          finish(lane);
        } else {
          lane.task = next++;
          lane.busy = true;
          lane.decoder.start_region(tasks[lane.task].file, tasks[lane.task].box, lane.storage);
        }
      }
    }
    const auto count = lanes[0].busy + lanes[1].busy;
    if (count == 0) break;
    together += count == 2;
    Decoder::decode_on(lanes[lanes[0].busy ? 0 : 1].decoder, count == 2 ? &lanes[1].decoder : nullptr);
  }
  EXPECT_EQ(good + bad, static_cast<int>(tasks.size()));
  EXPECT_GT(good, 20);
  EXPECT_GT(bad, 2);
  EXPECT_GT(together, 20);
}

// What a decoder was doing when it was given something else leaves no trace.
TEST(TwoJpegsTogether, AreAbandonedWithoutTrace) {
  const File file = encode_jpeg(photo(120, 90)), other = encode_jpeg(photo(90, 120, 2), {.quality = 80, .optimised = true});
  const File png = testing::png_bytes(photo(30, 20));
  Decoder first, second;
  first.share_tables(second);
  Image a, b, want;
  ImageView region;
  first.start_region(file, {0, 0, 120, 90}, a);
  second.start_region(other, {10, 10, 20, 30}, b);
  Decoder::decode_on(first, &second);
  ASSERT_FALSE(second.decoding());
  ASSERT_TRUE(first.decoding());
  first.start_region(png, {0, 0, 30, 20}, a);
  EXPECT_FALSE(first.decoding());
  ASSERT_FALSE(first.finish_region(region));
  EXPECT_TRUE(pixels(region) == pixels(photo(30, 20).view()));
  for (int i = 0; i < 20; ++i) {  // more tables than there are places for
    first.start_region(file, {0, 0, 120, 90}, a);
    first.start_region(encode_jpeg(photo(40, 40, static_cast<uint32_t>(i)), {.optimised = true}), {0, 0, 40, 40}, a);
    ASSERT_FALSE(first.decode_region(other, {0, 0, 90, 120}, a, region));
    ASSERT_FALSE(Decoder().decode(other, want));
    ASSERT_TRUE(pixels(region) == pixels(want.view()));
  }
}

}  // namespace
}  // namespace tessera::image
