// tessera data check and data show.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "data/decode.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

TEST(DataCheck, NamesEveryUnreadableFile) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  const Outcome good = run_program({"data", "check", "train"}, folder.path());
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("train"));
  EXPECT_THAT(good.out, HasSubstr("2 classes"));

  const std::string image = read_file(folder / "train" / "left" / "0.png");
  write_file(folder / "train" / "left" / "cut.png", image.substr(0, image.size() - 30));
  write_file(folder / "train" / "right" / "empty.png", "");
  write_file(folder / "train" / "right" / "text.png", "not an image");
  const Outcome bad = run_program({"data", "check", "train"}, folder.path());
  EXPECT_EQ(bad.exit, 3);
  for (const char* name : {"train/left/cut.png: ", "train/right/empty.png: ", "train/right/text.png: "}) {
    EXPECT_THAT(bad.out, HasSubstr(name));
  }
  const Json json = run_program({"data", "check", "--json", "train"}, folder.path()).json().at(0)["sources"][0];
  EXPECT_EQ(json["source"], "train");
  EXPECT_EQ(json["files"], 9);
  ASSERT_EQ(json["unreadable"].size(), 3u);
  EXPECT_EQ(json["unreadable"][0]["path"], "train/left/cut.png");
  EXPECT_NE(json["unreadable"][0]["reason"], "");
  EXPECT_EQ(json["formats"]["PNG"], 6);
}

TEST(DataCheck, TakesARecipeWithAllItsData) {
  const TempFolder folder;
  write_images(folder / "train", 2);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome = run_program({"data", "check", "tiny.toml", "--json"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const Json sources = outcome.json().at(0)["sources"];
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0]["files"], 4);
  EXPECT_EQ(sources[1]["files"], 2);
}

TEST(DataCheck, RefusesFoldersWithoutClassesOrImages) {
  const TempFolder folder;
  fs::create_directories(folder / "empty");
  const Outcome empty = run_program({"data", "check", "empty"}, folder.path());
  EXPECT_EQ(empty.exit, 3);
  EXPECT_THAT(empty.err, HasSubstr("make one sub-folder for each class"));
  write_image(folder / "classes" / "full" / "a.png", 0, 0);
  fs::create_directories(folder / "classes" / "hollow");
  const Outcome hollow = run_program({"data", "check", "classes"}, folder.path());
  EXPECT_EQ(hollow.exit, 3);
  EXPECT_THAT(hollow.err, HasSubstr("`hollow`"));
}

TEST(DataShow, DrawsTheFirstTrainingImages) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome = run_program({"data", "show", "tiny.toml", "--out", "picture.png", "--count", "4"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "picture.png\n");
  const std::string file = read_file(folder / "picture.png");
  data::Decoder decoder;
  data::Image image;
  ASSERT_FALSE(decoder.decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, image));
  EXPECT_GE(image.width(), 2 * 96);
  EXPECT_GE(image.height(), 96);
  // The same seed draws the same picture; another one does not.
  run_program({"data", "show", "tiny.toml", "--count", "4"}, folder.path());
  EXPECT_EQ(read_file(folder / "sheet.png"), file);
  run_program({"data", "show", "tiny.toml", "--count", "4", "seed=9"}, folder.path());
  EXPECT_NE(read_file(folder / "sheet.png"), file);
}

}  // namespace
}  // namespace tessera::cli
