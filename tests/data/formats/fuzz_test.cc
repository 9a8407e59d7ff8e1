// Damaged files: whatever the bytes, decoding returns pixels or a reason. Meant to run under the sanitizers.
// TESSERA_FUZZ_ROUNDS sets how many mutants are made of each file.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/rng.h"
#include "data/transform/pp.h"
#include "image/codec/codecs.h"
#include "image/image_testing.h"
#include "image/jpeg/fast_jpeg.h"
#include "support/paths.h"

namespace tessera::data {
namespace {

constexpr int64_t kFuzzPixels = 1 << 20;

int rounds() {
  const char* text = std::getenv("TESSERA_FUZZ_ROUNDS");
  return text ? std::atoi(text) : 60;
}

std::vector<uint8_t> mutate(std::vector<uint8_t> file, Rng& rng) {
  if (file.empty()) return file;
  if (rng.below(3) == 0) file.resize(rng.below(file.size()) + 1);
  // Headers are short and matter most: half of the changes go there.
  const uint64_t header = std::min<uint64_t>(file.size(), 256);
  for (uint64_t i = rng.below(6) + 1; i > 0; --i) {
    const uint64_t at = rng.below(rng.below(2) ? header : file.size());
    file[at] = rng.below(2) ? static_cast<uint8_t>(rng.next()) : static_cast<uint8_t>(file[at] ^ (1u << rng.below(8)));
  }
  return file;
}

image::Box random_box(const image::ImageInfo& info, Rng& rng) {
  image::Box box;
  box.width = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(info.width)));
  box.height = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(info.height)));
  box.x = static_cast<int>(rng.below(static_cast<uint64_t>(info.width - box.width) + 1));
  box.y = static_cast<int>(rng.below(static_cast<uint64_t>(info.height - box.height) + 1));
  return box;
}

uint64_t checksum(const image::ImageView& view) {
  uint64_t sum = 0;
  for (const uint8_t byte : image::testing::pixels(view)) sum += byte;
  return sum;
}

struct FuzzCounts {
  int64_t decoded = 0, refused = 0;
  uint64_t sum = 0;  // keeps every pixel read
};

void fuzz(const std::vector<uint8_t>& file, image::Decoder& decoder, Rng& rng, FuzzCounts& counts) {
  for (int i = 0; i < rounds(); ++i) {
    const std::vector<uint8_t> mutant = mutate(file, rng);
    image::Image image;
    if (const image::SampleError failed = decoder.decode(mutant, image)) {
      EXPECT_FALSE(failed->reason.empty());
      ++counts.refused;
    } else {
      counts.sum += checksum(image.view());
      ++counts.decoded;
    }
    image::ImageInfo info;
    image::ImageView region;
    if (decoder.probe(mutant, info)) continue;
    const image::Box box = random_box(info, rng);
    if (!decoder.decode_region(mutant, box, image, region)) {
      EXPECT_EQ(region.width, box.width);
      EXPECT_EQ(region.height, box.height);
      counts.sum += checksum(region);
    }
  }
}

TEST(Fuzz, DamagedFilesGivePixelsOrAReason) {
  image::Decoder decoder({.pixels = kFuzzPixels, .seconds = 0});
  FuzzCounts counts;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(tessera::testing::source_path("tests/image/images"))) {
    if (!entry.is_directory()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_FALSE(paths.empty());
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    Rng rng(1, hash_name(path.filename().string()));
    fuzz(image::testing::read_file(path), decoder, rng, counts);
  }
  EXPECT_GT(counts.decoded, 0);
  EXPECT_GT(counts.refused, 0);
  // And the decoder still works.
  image::Image image;
  EXPECT_FALSE(decoder.decode(image::testing::encode_jpeg(image::testing::photo(40, 30)), image));
}

// Whatever the bytes, the decoder of our own changes neither pixels nor reasons.
TEST(Fuzz, DamagedJpegsAreTheLibrarys) {
  image::JpegDecoder library(true), both;
  image::FastJpeg usual;
  image::DecodeMeter meter({.pixels = kFuzzPixels, .seconds = 0}, nullptr);
  int64_t taken = 0, left = 0;
  const auto compare = [&](const std::vector<uint8_t>& file, const image::Box* box, image::Image& want_image,
                           image::Image& image) {
    image::ImageView want, got;
    const image::SampleError failed = library.decode(file, meter, box, want_image, want);
    const image::SampleError result = both.decode(file, meter, box, image, got);
    ASSERT_EQ(result.has_value(), failed.has_value());
    if (failed) {
      ASSERT_EQ(result->reason, failed->reason);
    } else {
      ASSERT_TRUE(image::testing::pixels(got) == image::testing::pixels(want));
    }
    image::JpegHeader header;
    const bool usual_header = !failed && read_usual_header(file, header);
    if (usual_header) usual.start(file, header, box, image);
    if (!usual.done()) image::FastJpeg::run(usual, nullptr);
    (usual_header && usual.ok() ? taken : left) += 1;
  };
  Rng rng(3);
  image::Image image, other;
  for (const image::testing::JpegOptions& options : {image::testing::JpegOptions{},
                                                     {.horizontal = 1, .vertical = 1, .optimised = true},
                                                     {.horizontal = 1},
                                                     {.vertical = 1},
                                                     {.grey = true},
                                                     {.restart_mcus = 2},
                                                     {.progressive = true}}) {
    for (const int quality : {40, 90, 100}) {
      image::testing::JpegOptions kind = options;
      kind.quality = quality;
      const std::vector<uint8_t> file = image::testing::encode_jpeg(image::testing::photo(67, 45), kind);
      for (int i = 0; i < rounds() * 2; ++i) {
        const std::vector<uint8_t> mutant = mutate(file, rng);
        compare(mutant, nullptr, image, other);
        image::ImageInfo info, same;
        const image::SampleError failed = library.probe(mutant, meter, info);
        ASSERT_EQ(both.probe(mutant, meter, same).has_value(), failed.has_value());
        if (failed) continue;
        ASSERT_EQ(std::pair(info.width, info.height), std::pair(same.width, same.height));
        const image::Box box = random_box(info, rng);
        compare(mutant, &box, image, other);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(taken, 100);
  EXPECT_GT(left, 100);
}

TEST(Fuzz, ChainsSurviveDamagedFiles) {
  const Pp pp("decode | random_resized_crop(24, interpolation=random) | flip_lr | random_crop(16)", PpUse::kTrain);
  PpScratch scratch;
  std::vector<uint8_t> out(pp.image_bytes());
  Rng rng(2);
  for (const auto& file :
       {image::testing::encode_jpeg(image::testing::photo(67, 45)), image::testing::png_bytes(image::testing::photo(20, 20))}) {
    int64_t read = 0;
    for (int i = 0; i < rounds() * 4; ++i)
      read += !pp.run(mutate(file, rng), {1, 0, static_cast<uint64_t>(i)}, scratch, out.data());
    EXPECT_GT(read, 0);
  }
}

}  // namespace
}  // namespace tessera::data
