// The file of the first images, where the device mixes or erases them.

#include "train/workdir/first_batch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "image/codec/decode.h"
#include "train/small_run.h"

namespace tessera::train {
namespace {

using testing::small_run;

TEST(FirstBatch, IsAsTheDeviceLeavesIt) {
  // Without sinks too. All of each image is erased, half of it at least.
  ASSERT_EQ(
      small_run()
          .train("erased", {"total=6 steps", "monitor.images=5", "monitor.sinks=[]",
                            "data.pp=decode | random_crop(8) | flip_lr | value_range(-1, 1) | random_erasing(1, mode=const)"})
          .exit,
      Exit::kDone);
  const std::string png = testing::slurp(small_run().path("erased") + "/" + kFirstBatch);
  image::Image sheet;
  ASSERT_FALSE(image::Decoder().decode({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, sheet));
  ASSERT_EQ(sheet.width(), 3 * 8);
  ASSERT_EQ(sheet.height(), 2 * 8);
  for (int i = 0; i < 6; ++i) {
    int grey = 0, black = 0;
    for (int y = 0; y < 8; ++y) {
      const uint8_t* row = sheet.row(i / 3 * 8 + y) + i % 3 * 24;
      for (int x = 0; x < 24; ++x) grey += row[x] == 127 || row[x] == 128, black += row[x] == 0;  // 0 after value_range(-1, 1)
    }
    if (i < 5) {
      EXPECT_GE(grey, 3) << i;
    } else {
      EXPECT_EQ(black, 192) << "the sixth place is empty";
    }
  }
}

TEST(FirstBatch, IsThereForNoRunWhoseImagesTheHostFinishes) {
  for (const char* more : {"monitor.images=5", "monitor.images=0"}) {
    const std::string name = std::string("plain_") + more;
    const std::string mixup = std::string(more).ends_with("0") ? "data.mixup={mixup=0.8}" : "log=1 step";
    ASSERT_EQ(small_run().train(name, {"total=6 steps", more, mixup}).exit, Exit::kDone);
    EXPECT_FALSE(std::filesystem::exists(small_run().path(name) + "/" + kFirstBatch)) << more;
  }
}

}  // namespace
}  // namespace tessera::train
