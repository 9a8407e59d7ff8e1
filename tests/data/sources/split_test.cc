// split: several views of an image, and where they stand in a batch.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/loader/loader.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;
using Pixels = std::vector<uint8_t>;

constexpr int64_t kBatch = 4;
const std::string kClean = "decode | random_resized_crop(12) | flip_lr", kAugment = "auto_augment(augmix-m5-w3)";
const std::string kEnd = "value_range(-1, 1) | random_erasing(1)";
const std::string kSplit = kClean + " | split(3) | " + kAugment + " | " + kEnd;

std::shared_ptr<const Pp> chain(const std::string& text) { return std::make_shared<const Pp>(text, PpUse::kTrain, "data.pp"); }

class Split : public ::testing::Test {
 protected:
  Split() {
    for (int i = 0; i < 11; ++i) {
      image::testing::write_file(dir_ / fmt::format("{}/{}.png", static_cast<char>('a' + i % 3), 100 + i),
                                 image::testing::png_bytes(image::testing::photo(20 + i, 18, static_cast<uint32_t>(i))));
    }
    source_ = open_folder(dir_.path());
  }
  TrainLoader loader(const std::string& text, int64_t rows, int64_t start = 0) const {
    LoaderOptions options;
    options.batch = rows;
    options.seed = 7;
    options.start_batch = start;
    return TrainLoader({{source_, chain(text), {}}}, options);
  }

  image::testing::TempDir dir_;
  std::shared_ptr<const Source> source_;
};

Pixels row(const Batch& batch, int64_t r) {
  const int64_t bytes = static_cast<int64_t>(batch.image_bytes()) / batch.rows();
  return {batch.images() + r * bytes, batch.images() + (r + 1) * bytes};
}

// The first view is what a chain without a split makes, of the same images in the same order, epoch after epoch.
TEST_F(Split, ViewZeroIsTheChainWithoutIt) {
  TrainLoader views = loader(kSplit, 3 * kBatch), plain = loader(kClean + " | value_range(-1, 1)", kBatch);
  for (int i = 0; i < 4; ++i) {
    const Batch some = views.next(), all = plain.next();
    ASSERT_EQ(some.rows(), 3 * kBatch);
    for (int64_t r = 0; r < some.rows(); ++r) {
      EXPECT_EQ(some.samples()[r], all.samples()[r % kBatch]);
      EXPECT_EQ(some.labels()[r], all.labels()[r % kBatch]);
      EXPECT_EQ(row(some, r) == row(all, r % kBatch), r < kBatch) << "batch " << i << ", row " << r;
      // Nothing of view 0 is erased.
      const float* box = some.augment() + r * some.augment_values();
      EXPECT_EQ(box[2] > box[0] && box[3] > box[1], r >= kBatch);
    }
    for (int64_t r = kBatch; r < 2 * kBatch; ++r) EXPECT_NE(row(some, r), row(some, r + kBatch));
  }
}

TEST_F(Split, ABatchDoesNotDependOnWhereTheRunBegan) {
  TrainLoader whole = loader(kSplit, 3 * kBatch), resumed = loader(kSplit, 3 * kBatch, 1);
  whole.next();
  const Batch want = whole.next(), got = resumed.next();
  for (int64_t r = 0; r < want.rows(); ++r) EXPECT_EQ(row(got, r), row(want, r)) << r;
}

// Ops before the split are the same for all views: the crop and the flip here, which are all that happens.
TEST_F(Split, ViewsShareWhatComesBeforeIt) {
  TrainLoader views = loader(kClean + " | split(2) | value_range(-1, 1)", 2 * kBatch);
  const Batch batch = views.next();
  for (int64_t r = 0; r < kBatch; ++r) EXPECT_EQ(row(batch, r), row(batch, r + kBatch));
}

std::string failure(const std::string& text, PpUse use = PpUse::kTrain) {
  try {
    const Pp pp(text, use, "data.pp");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(SplitMistakes, AreUsageErrors) {
  EXPECT_THAT(failure("decode | resize(12) | split(1)"), HasSubstr("`views` must be 2 to 16"));
  EXPECT_THAT(failure("decode | split(3) | resize(12)"), HasSubstr("the views must have one size"));
  EXPECT_THAT(failure("decode | resize(12) | split(3) | central_crop(8)"), HasSubstr("changes the size of images"));
  EXPECT_THAT(failure("decode | resize(12) | split(3) | split(3)"), HasSubstr("split before"));
  EXPECT_THAT(failure("decode | resize(12) | split(3)", PpUse::kEval), HasSubstr("it is random"));
}

}  // namespace
}  // namespace tessera::data
