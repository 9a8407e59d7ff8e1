#include "data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "image/image_testing.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using image::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& call, Exit code) {
  try {
    make_source(call, "data.source");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.where(), "data.source");
    return error.what();
  }
  return "accepted";
}

TEST(FakeSource, SizesAreBounded) {
  for (const char* call : {"fake(images=1e15)", "fake(images=1e9, classes=1e8)", "fake(words=1e9)"}) {
    EXPECT_THROW(make_source(call), Error) << call;
  }
  EXPECT_EQ(make_source("fake(images=1e12, classes=10, words=1e5)")->size(), 1'000'000'000'000);
}

TEST(FolderSource, ListsClassesAndFilesInOrder) {
  const TempDir dir;
  for (const char* name :
       {"b/2.jpg", "b/10.jpg", "B/x.png", "a/deep/er/z", "a/deep.png", "a/.hidden", ".git/config", "b/.cache/x", "README"}) {
    write_file(dir / name, {'f', static_cast<uint8_t>(name[2])});
  }
  std::filesystem::create_symlink(dir / "b/2.jpg", dir / "b/link.jpg");
  const auto source = make_source("folder(" + dir.path().string() + "/)", "data.source");
  EXPECT_EQ(source->name(), dir.path().string());
  EXPECT_THAT(source->class_names(), ElementsAre("B", "a", "b"));
  std::vector<std::string> ids;
  std::vector<int> labels;
  Sample sample;
  for (int64_t i = 0; i < source->size(); ++i) {
    ids.push_back(source->id(i));
    ASSERT_FALSE(source->read(i, sample));
    labels.push_back(sample.label);
  }
  EXPECT_THAT(ids, ElementsAre("B/x.png", "a/deep.png", "a/deep/er/z", "b/10.jpg", "b/2.jpg", "b/link.jpg"));
  EXPECT_THAT(labels, ElementsAre(0, 1, 1, 2, 2, 2));
  ASSERT_FALSE(source->read(4, sample));
  EXPECT_THAT(sample.image, ElementsAre('f', '2'));
  ASSERT_FALSE(source->read(5, sample));
  EXPECT_EQ(sample.image.size(), 2u);
}

TEST(Source, AFileInItsPlaceIsAnsweredByItsEnding) {
  for (const auto& [name, help] : {std::pair{"a.tsv", "write csv(a.tsv, image=COLUMN"},
                                   {"a.jsonl", "write jsonl(a.jsonl); tessera help jsonl"},
                                   {"a-000.tar", "write wds(a-000.tar)"},
                                   {"a.zip", "unpack it, and write folder(DIR)"},
                                   {"a.toml", "that is a recipe; a source is folder(DIR)"}}) {
    EXPECT_THAT(error_of(name, Exit::kUsage), HasSubstr(help)) << name;
  }
}

TEST(FolderSource, MistakesAreExplained) {
  const TempDir dir;
  const std::string path = dir.path().string();
  EXPECT_THAT(error_of("folder(" + path + "/none)", Exit::kData),
              AllOf(HasSubstr("does not exist"), HasSubstr("working directory")));
  EXPECT_THAT(error_of("folder(" + path + ")", Exit::kData), AllOf(HasSubstr("is empty"), HasSubstr("/cat/one.jpg")));
  write_file(dir / "one.jpg", {1});
  EXPECT_THAT(error_of("folder(" + path + ")", Exit::kData), HasSubstr("has 1 file but no sub-folders"));
  EXPECT_THAT(error_of("folder(" + path + "/one.jpg)", Exit::kData), HasSubstr("is a file, not a folder"));
  write_file(dir / "t.csv", {1});
  EXPECT_THAT(error_of("folder(" + path + "/t.csv)", Exit::kData),
              HasSubstr("write csv(" + path + "/t.csv, image=COLUMN, label=COLUMN)"));
  std::filesystem::create_directories(dir / "cat");
  EXPECT_THAT(error_of("folder(" + path + ")", Exit::kData), HasSubstr("holds no images"));
  write_file(dir / "dog/x.jpg", {1});
  EXPECT_THAT(error_of("folder(" + path + ")", Exit::kData),
              AllOf(HasSubstr("the class folder `cat`"), HasSubstr("holds no images")));
  std::filesystem::create_directories(dir / "eel/deep");
  EXPECT_THAT(error_of("folder(" + path + ")", Exit::kData),
              AllOf(HasSubstr("the class folders `cat`, `eel`"), HasSubstr("add images to them")));
  EXPECT_THAT(error_of("folder", Exit::kUsage), HasSubstr("`path` is missing"));
  EXPECT_THAT(error_of("folder(a, b)", Exit::kUsage), HasSubstr("too many arguments"));
  EXPECT_THAT(error_of("foldr(a)", Exit::kUsage), AllOf(HasSubstr("unknown data source `foldr`"), HasSubstr("`folder`")));
}

TEST(FolderSource, PartsOfADataSetAreNoClasses) {
  const TempDir dir;
  const std::string path = dir.path().string();
  for (const char* name : {"train/cat/1", "train/dog/1", "train/readme.txt", "val/cat/2", "val/dog/2"})
    write_file(dir / name, {1});
  const std::string whole = "folder(" + path + ")",
                    wanted = "write folder(" + path + "/train), and folder(" + path + "/val) for evaluation";
  for (int opened = 0; opened < 2; ++opened) {
    EXPECT_THAT(error_of(whole, Exit::kData),
                AllOf(HasSubstr("holds parts of a data set"), HasSubstr("`train`, `val`"), HasSubstr(wanted)));
  }
  EXPECT_THAT(make_source("folder(" + path + "/val)")->class_names(), ElementsAre("cat", "dog"));
  for (const char* name : {"test/cat/3", "test/dog/3"}) write_file(dir / name, {1});
  EXPECT_THAT(error_of(whole, Exit::kData), HasSubstr(wanted)) << "validation comes before test";
  std::filesystem::remove_all(dir / "test");
  std::filesystem::rename(dir / "train", dir / "Training");
  std::filesystem::remove_all(dir / "val");
  EXPECT_THAT(error_of(whole, Exit::kData), HasSubstr("write folder(" + path + "/Training)"));
}

TEST(FolderSource, AFolderAroundTheClassesIsNoted) {
  const TempDir dir;
  const std::string path = dir.path().string();
  for (const char* name : {"photos/cat/1.jpg", "photos/dog/2.jpg"}) write_file(dir / name, {1});
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(make_source("folder(" + path + ")")->class_names(), ElementsAre("photos"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("write folder(" + path + "/photos)"));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(make_source("folder(" + path + "/photos)")->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(FolderSource, AClassMayBeNamedAsAPartIs) {
  const TempDir dir;
  for (const char* name : {"train/1.jpg", "train/2.jpg", "train/old/3.jpg", "test/1.jpg"}) write_file(dir / name, {1});
  EXPECT_THAT(make_source("folder(" + dir.path().string() + ")")->class_names(), ElementsAre("test", "train"));
  const TempDir vehicles;
  for (const char* name : {"train/steam/1.jpg", "train/diesel/2.jpg", "bus/red/1.jpg"}) write_file(vehicles / name, {1});
  EXPECT_THAT(make_source("folder(" + vehicles.path().string() + ")")->class_names(), ElementsAre("bus", "train"));
}

TEST(FolderSource, UnreadableFilesAreReasons) {
  const TempDir dir;
  write_file(dir / "a/gone.jpg", {1});
  ASSERT_EQ(mkfifo((dir / "a/pipe").c_str(), 0600), 0);
  const auto source = open_folder(dir.path());
  std::filesystem::remove(dir / "a/gone.jpg");
  Sample sample;
  EXPECT_EQ(source->read(0, sample), "No such file or directory");
  EXPECT_EQ(source->read(1, sample), "a named pipe, not a regular file");
}

// A hole of a terabyte costs nothing on the disk, and would cost all memory.
TEST(FolderSource, FilesLargerThanAnyPictureAreRefused) {
  const TempDir dir;
  write_file(dir / "a/hole.png", {1});
  std::filesystem::resize_file(dir / "a/hole.png", uintmax_t{1} << 40);
  Sample sample;
  EXPECT_EQ(open_folder(dir.path())->read(0, sample), "the file is 1.00 TiB, which is over the limit of 1.00 GiB");
  EXPECT_EQ(sample.memory.capacity(), 0u);
}

}  // namespace
}  // namespace tessera::data
