// Hostile images: what they may cost is bounded before it is spent, and the reason is said in words.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "data/loader/loader.h"
#include "image/codec/decode.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using image::testing::encode_jpeg;
using image::testing::encode_webp;
using image::testing::photo;
using image::testing::png_bytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using File = std::vector<uint8_t>;

std::string reason(const image::SampleError& result) { return result ? result->reason : "decoded"; }

std::string decode(const File& file, const image::DecodeLimits& limits = {}) {
  image::Image image;
  return reason(image::Decoder(limits).decode(file, image));
}

// Where the marker 0xFF `code` begins last.
size_t last_marker(const File& file, uint8_t code) {
  for (size_t at = file.size() - 2;; --at) {
    if (file[at] == 0xFF && file[at + 1] == code) return at;
  }
}

// A progressive JPEG whose last scan comes `count` times more.
File with_scans(const image::Image& image, size_t count) {
  const File file = encode_jpeg(image, {.progressive = true});
  constexpr uint8_t kStartOfScan = 0xDA, kEnd = 0xD9;
  const auto scan = file.begin() + static_cast<ptrdiff_t>(last_marker(file, kStartOfScan));
  const auto end = file.begin() + static_cast<ptrdiff_t>(last_marker(file, kEnd));
  File out(file.begin(), end);
  for (size_t i = 0; i < count; ++i) out.insert(out.end(), scan, end);
  out.insert(out.end(), end, file.end());
  return out;
}

// The same JPEG, whose header says another size.
File with_size(File file, int width, int height) {
  for (const uint8_t frame : {0xC0, 0xC2}) {
    for (size_t at = 2; at + 9 < file.size(); ++at) {
      if (file[at] != 0xFF || file[at + 1] != frame) continue;
      file[at + 5] = static_cast<uint8_t>(height >> 8);
      file[at + 6] = static_cast<uint8_t>(height);
      file[at + 7] = static_cast<uint8_t>(width >> 8);
      file[at + 8] = static_cast<uint8_t>(width);
      return file;
    }
  }
  return file;
}

void put_32(File& out, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<uint8_t>(value >> shift));
}

uint32_t crc_32(const uint8_t* bytes, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

void put_chunk(File& out, std::string_view type, const File& body) {
  put_32(out, static_cast<uint32_t>(body.size()));
  const size_t begin = out.size();
  out.insert(out.end(), type.begin(), type.end());
  out.insert(out.end(), body.begin(), body.end());
  put_32(out, crc_32(&out[begin], out.size() - begin));
}

// zlib's form of `size` zeros, a multiple of 258 and 1: 13 bits for 258 of them.
File zeros(size_t repeats) {
  File out = {0x78, 0x9C};
  uint32_t bits = 0;
  int count = 0;
  const auto put = [&](uint32_t value, int size) {
    bits |= value << count;
    for (count += size; count >= 8; count -= 8, bits >>= 8) out.push_back(static_cast<uint8_t>(bits));
  };
  put(0b011, 3);  // the last block, of fixed codes
  put(0b00001100, 8);
  for (size_t i = 0; i < repeats; ++i) {
    put(0b10100011, 8);  // 258 more of the byte before
    put(0, 5);
  }
  put(0, 7);
  if (count > 0) put(0, 8 - count);
  put_32(out, static_cast<uint32_t>((1 + 258 * repeats) % 65521 << 16 | 1));
  return out;
}

File header_chunk(uint32_t width, uint32_t height, uint8_t depth, uint8_t color) {
  File header;
  put_32(header, width);
  put_32(header, height);
  header.insert(header.end(), {depth, color, 0, 0, 0});
  return header;
}

const File kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

// A grey PNG whose header says this size. Its pixels are 1 + 258 x `repeats` zeros, which may be too few. The chunk
// `extra_type` stands before them where one is named.
File png_of(uint32_t width, uint32_t height, size_t repeats, std::string_view extra_type = {}, const File& extra = {}) {
  File out = kSignature;
  put_chunk(out, "IHDR", header_chunk(width, height, 8, 0));
  if (!extra_type.empty()) put_chunk(out, extra_type, extra);
  put_chunk(out, "IDAT", zeros(repeats));
  put_chunk(out, "IEND", {});
  return out;
}

TEST(Limits, ScansOfAJpeg) {
  const image::Image image = photo(48, 32);
  EXPECT_EQ(decode(with_scans(image, 50)), "decoded");
  EXPECT_EQ(decode(with_scans(image, 100)), "over the limit of 100 scans");
  EXPECT_EQ(decode(with_scans(image, 100), {.scans = 200}), "decoded");
  // Those of an ordinary file.
  EXPECT_EQ(decode(with_scans(image, 0), {.scans = 10}), "decoded");
  EXPECT_EQ(decode(with_scans(image, 0), {.scans = 9}), "over the limit of 9 scans");
}

// What 10,000 scans of a large picture would take, minutes, is not spent.
TEST(Limits, ManyScansOfALargeJpegAreRefusedByTheirNumber) {
  const File file = with_size(with_scans(photo(64, 64), 10'000), 8000, 6000);
  EXPECT_THAT(decode(file, {.scans = 100, .seconds = 0}), HasSubstr("over the limit of 100 scans"));
}

TEST(Limits, PixelsAndMemoryByTheHeader) {
  const File plain = encode_jpeg(photo(64, 64)), progressive = encode_jpeg(photo(64, 64), {.progressive = true});
  EXPECT_EQ(decode(with_size(plain, 10'001, 10'000)), "10001x10000 pixels are over the limit of 100000000");
  EXPECT_EQ(decode(with_size(progressive, 10'001, 10'000)), "10001x10000 pixels are over the limit of 100000000");
  // Three bytes a pixel, and as many for the coefficients of 4:2:0.
  EXPECT_EQ(decode(with_size(progressive, 10'000, 9'500)),
            "decoding would take 543.71 MiB, which is over the limit of 512.00 MiB");
  EXPECT_EQ(decode(plain, {.bytes = 64 * 64 * 3 - 1}), "decoding would take 12.00 KiB, which is over the limit of 12.00 KiB");
  EXPECT_EQ(decode(plain, {.bytes = 64 * 64 * 3}), "decoded");
  for (const bool lossless : {false, true}) {
    const File webp = encode_webp(photo(64, 64), lossless);
    EXPECT_THAT(decode(webp, {.bytes = 64 * 64 * 3 - 1}), StartsWith("decoding would take"));
    EXPECT_EQ(decode(webp, {.bytes = 64 * 64 * 7}), "decoded");
  }
}

TEST(Limits, PngBombs) {
  EXPECT_EQ(decode(png_of(1, 170'000'000, 1000)), "1x170000000 pixels are over the limit of 100000000");
  EXPECT_EQ(decode(png_of(170'000'000, 1, 1000)), "170000000x1 pixels are over the limit of 100000000");
  EXPECT_EQ(decode(png_of(2'147'483'647, 2'147'483'647, 1000)), "2147483647x2147483647 pixels are over the limit of 100000000");
  EXPECT_EQ(decode(png_of(64, 64, 20), {.bytes = 64 * 64 * 3 - 1}),
            "decoding would take 12.00 KiB, which is over the limit of 12.00 KiB");
  // 4161 bytes of pixels are there.
  EXPECT_EQ(decode(png_of(64, 64, 20)), "decoded");
  EXPECT_THAT(decode(png_of(640, 640, 20)), HasSubstr("PNG"));
}

// Compressed text and colour profiles that would inflate to 650 MB are bounded by what is kept of them, whatever becomes of the
// picture.
TEST(Limits, ChunksThatInflate) {
  const File bomb = zeros(2'500'000);
  for (const char* type : {"zTXt", "iCCP"}) {
    SCOPED_TRACE(type);
    File body = {'n', 'a', 'm', 'e', 0, 0};
    body.insert(body.end(), bomb.begin(), bomb.end());
    EXPECT_THAT(decode(png_of(64, 64, 20, type, body)), ::testing::AnyOf("decoded", HasSubstr("PNG")));
  }
}

TEST(Limits, ProcessorTimeOfOddFilesOnly) {
  const image::Image image = photo(400, 300);
  const image::DecodeLimits none{.seconds = 1e-9};
  EXPECT_EQ(decode(encode_jpeg(image, {.progressive = true}), none),
            "decoding is over the limit of 1e-09 s of processor time, which another machine may keep");
  EXPECT_EQ(decode(png_bytes(photo(1000, 700)), none),
            "decoding is over the limit of 1e-09 s of processor time, which another machine may keep");
  EXPECT_EQ(decode(encode_jpeg(image, {.progressive = true}), {.seconds = 0}), "decoded");
  // Ordinary data depends on no clock.
  EXPECT_EQ(decode(encode_jpeg(image), none), "decoded");
  EXPECT_EQ(decode(encode_webp(image, false), none), "decoded");
}

TEST(Limits, AStopEndsALongDecode) {
  std::atomic<bool> stop = true;
  image::Decoder decoder;
  decoder.set_limits({}, &stop);
  image::Image image;
  EXPECT_EQ(reason(decoder.decode(encode_jpeg(photo(400, 300), {.progressive = true}), image)), "decoding was stopped");
  EXPECT_EQ(reason(decoder.decode(png_bytes(photo(400, 300)), image)), "decoding was stopped");
  stop = false;
  EXPECT_EQ(reason(decoder.decode(encode_jpeg(photo(400, 300), {.progressive = true}), image)), "decoded");
}

// A long and narrow picture is small, and huge once its short side is enlarged.
TEST(Limits, BindWhatAResizeMakes) {
  const auto run = [](const char* chain, const File& file, const image::DecodeLimits& limits = {}) {
    const Pp pp(chain, PpUse::kEval);
    PpScratch scratch;
    scratch.set_limits(limits, nullptr);
    std::vector<uint8_t> out(pp.image_bytes());
    return reason(pp.run(file, {}, scratch, out.data()));
  };
  const File narrow = png_bytes(image::Image(1, 65'500));
  for (const char* chain :
       {"decode | resize_small(224) | central_crop(224)", "decode | resize_small(224, library=tensorflow) | central_crop(224)",
        "decode | resize_keep_ratio(224) | central_crop(224)"}) {
    SCOPED_TRACE(chain);
    EXPECT_EQ(run(chain, narrow),
              "resizing would make 224x14672000 pixels, 9.18 GiB, which is over the limit of 100000000 pixels");
  }
  EXPECT_EQ(run("decode | resize_small(20) | central_crop(20)", narrow), "decoded");
  EXPECT_EQ(run("decode | resize(300) | central_crop(20)", narrow, {.bytes = 200'000}),
            "resizing would make 300x300 pixels, 263.67 KiB, which is over the limit of 195.31 KiB");
  // Sides past what an int holds.
  const File line = png_of(1, 1'000'000, 1);
  for (const char* chain : {"decode | resize_small(2240) | central_crop(224)",
                            "decode | resize_small(2240, library=tensorflow) | central_crop(224)"}) {
    EXPECT_THAT(run(chain, line), HasSubstr("resizing would make 2240x2147483647 pixels")) << chain;
  }
}

// The decoder still makes the same pixels after it gave up on a file.
TEST(Limits, LeaveNothingBehind) {
  const File good = encode_jpeg(photo(48, 32), {.progressive = true});
  image::Decoder decoder;
  image::Image before, after;
  ASSERT_FALSE(decoder.decode(good, before));
  EXPECT_TRUE(decoder.decode(with_scans(photo(48, 32), 200), after));
  ASSERT_FALSE(decoder.decode(good, after));
  EXPECT_EQ(image::testing::pixels(before.view()), image::testing::pixels(after.view()));
}

TEST(Limits, AreTheLoadersAndCountAsUnreadable) {
  image::testing::TempDir dir;
  for (int i = 0; i < 8; ++i)
    image::testing::write_file(dir / fmt::format("a/{}.jpg", i), encode_jpeg(photo(30, 30, 1u + static_cast<unsigned>(i))));
  image::testing::write_file(dir / "a/x.jpg", with_scans(photo(30, 30), 150));
  const auto pp = std::make_shared<const Pp>("decode | resize(12)", PpUse::kEval);
  const auto skips = [&](const image::DecodeLimits& limits) {
    EvalLoader loader({open_folder(dir.path()), pp, {}}, {.batch = 4, .threads = 2, .limits = limits});
    while (loader.next()) {
    }
    return loader.stats().skipped;
  };
  ASSERT_EQ(skips({}).size(), 1u);
  EXPECT_EQ(skips({})[0].reason, "over the limit of 100 scans");
  EXPECT_EQ(skips({.scans = 1000}).size(), 0u);
}

}  // namespace
}  // namespace tessera::data
