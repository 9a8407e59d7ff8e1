// tessera data prepare imagenet: archives in ImageNet's structure, whole ones and bad ones.

#include <functional>

#include "data/prepare_testing.h"
#include "store/local/disk_room.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::content;
using ::testing::ElementsAre;
using testing::failure;
using testing::gzip;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Members;
using testing::picture;
using testing::special_member;
using testing::tar_of;
using testing::TempDir;
using testing::write_text;
using testing::write_zip;

// The classes of tests/references/mat/devkit.mat with as many images as it says.
const std::vector<std::pair<std::string, int>> kClasses = {{"n02119789", 3}, {"n02100735", 2}, {"n02110185", 4}};
const std::string kTruth = "3\n1\n2\n2\n3\n";
const std::vector<std::string> kValClasses = {"n02110185", "n02119789", "n02100735", "n02100735", "n02110185"};

std::string mat(const std::string& name) {
  return testing::as_string(image::testing::read_file(tessera::testing::source_path("tests/references/mat/") + name));
}

// Archives of a small ImageNet, each as bytes that a test may change.
struct Archives {
  std::map<std::string, Members> classes;  // files of each class's archive
  Members val;
  Members devkit;

  Archives() {
    int number = 0;
    for (const auto& [wnid, count] : kClasses) {
      for (int i = 0; i < count; ++i)
        classes[wnid].emplace_back(fmt::format("{}_{}.JPEG", wnid, 10 * i + 7), picture(++number));
    }
    for (int i = 1; i <= 5; ++i) val.emplace_back(val_name(i), picture(100 + i));
    const std::string folder = "ILSVRC2012_devkit_t12/";
    devkit = {{folder + "readme.txt", "the devkit"},
              {folder + "data/meta.mat", mat("devkit.mat")},
              {folder + "data/ILSVRC2012_validation_ground_truth.txt", kTruth}};
  }
  static std::string val_name(int number) { return fmt::format("ILSVRC2012_val_{:08}.JPEG", number); }

  Members train() const {
    Members out;
    for (const auto& [wnid, files] : classes) out.emplace_back(wnid + ".tar", tar_of(files));
    return out;
  }
  // Into a folder, from which plan_imagenet() takes them.
  void write(const fs::path& folder) const {
    write_text(folder / "ILSVRC2012_img_train.tar", tar_of(train()));
    write_text(folder / "ILSVRC2012_img_val.tar", tar_of(val));
    write_text(folder / "ILSVRC2012_devkit_t12.tar.gz", gzip(tar_of(devkit)));
  }
  // What should come of them.
  std::map<std::string, std::string> prepared() const {
    std::map<std::string, std::string> out;
    for (const auto& [wnid, files] : classes) {
      for (const auto& [name, bytes] : files) out[fmt::format("train/{}/{}", wnid, name)] = bytes;
    }
    for (size_t i = 0; i < val.size(); ++i) out[fmt::format("val/{}/{}", kValClasses[i], val[i].first)] = val[i].second;
    return out;
  }
};

constexpr const char* kSynsets =
    "n02100735 English setter\nn02110185 Siberian husky; crêpe 猫\nn02119789 kit fox, Vulpes macrotis\n";

Prepared prepare_set(const std::vector<std::string>& from, const std::string& dir, const PrepareOptions& options = {}) {
  return prepare(plan_imagenet(files_given(from)), dir, options);
}

TEST(PrepareImagenet, MakesFoldersOfClasses) {
  const TempDir dir;
  const Archives archives;
  archives.write(dir / "from");
  const Prepared prepared = prepare_set({dir / "from"}, dir / "set");
  auto expected = archives.prepared();
  expected["synsets.txt"] = kSynsets;
  EXPECT_EQ(content(dir / "set"), expected);
  ASSERT_EQ(prepared.folders.size(), 2u);
  EXPECT_EQ(prepared.folders[0].files, 9);
  EXPECT_EQ(prepared.folders[0].written, 9);
  EXPECT_EQ(prepared.folders[0].counts, (std::map<std::string, int64_t>{{"n02100735", 2}, {"n02110185", 4}, {"n02119789", 3}}));
  EXPECT_EQ(prepared.folders[1].files, 5);
  EXPECT_THAT(prepared.finding.problems, IsEmpty());
  EXPECT_THAT(prepared.finding.notes, ElementsAre("9 training images, of the 1,281,167 of ILSVRC2012",
                                                  "3 classes of training images, of the 1,000 of ILSVRC2012",
                                                  "5 validation images, of the 50,000 of ILSVRC2012",
                                                  "3 classes of validation images, of the 1,000 of ILSVRC2012"));
  // What sources make of it.
  ASSERT_EQ(prepared.finding.sources.size(), 2u);
  const auto train = make_source(prepared.finding.sources[0]), val = make_source(prepared.finding.sources[1]);
  EXPECT_EQ(train->size(), 9);
  EXPECT_EQ(val->class_names(), train->class_names());
  Sample sample;
  ASSERT_FALSE(val->read(4, sample));
  EXPECT_EQ(val->class_names()[static_cast<size_t>(sample.label)], "n02119789");
}

TEST(PrepareImagenet, TakesOneAfterTheOther) {
  const TempDir dir;
  const Archives archives;
  archives.write(dir / "from");
  prepare_set({dir / "from/ILSVRC2012_img_train.tar"}, dir / "set");
  EXPECT_FALSE(fs::exists(dir / "set/val"));
  prepare_set({dir / "from/ILSVRC2012_img_val.tar", dir / "from/ILSVRC2012_devkit_t12.tar.gz"}, dir / "set");
  auto expected = archives.prepared();
  expected["synsets.txt"] = kSynsets;
  EXPECT_EQ(content(dir / "set"), expected);
  // Once more: nothing is written.
  const Prepared again = prepare_set({dir / "from"}, dir / "set");
  for (const UnpackedFolder& folder : again.folders) {
    EXPECT_TRUE(folder.kept);
    EXPECT_EQ(folder.written, 0);
  }
}

std::string solution(const std::vector<std::string>& classes) {
  std::string text = "ImageId,PredictionString\n";
  for (size_t i = classes.size(); i-- > 0;)  // in no order
    text += fmt::format("ILSVRC2012_val_{:08},{} 85 1 499 272 {} 1 2 3 4 \n", i + 1, classes[i], classes[i]);
  return text;
}

TEST(PrepareImagenet, TakesLabelsFromKaggle) {
  const TempDir dir;
  const Archives archives;
  archives.write(dir / "from");
  write_text(dir / "LOC_val_solution.csv", solution(kValClasses));
  prepare_set({dir / "from/ILSVRC2012_img_val.tar", dir / "LOC_val_solution.csv"}, dir / "set");
  for (const auto& [path, bytes] : content(dir / "set")) EXPECT_EQ(archives.prepared().at(path), bytes) << path;
  EXPECT_EQ(content(dir / "set").size(), 5u);
}

// Kaggle's archive, as a zip and unzipped of it as a tar.
TEST(PrepareImagenet, TakesKagglesArchive) {
  const TempDir dir;
  const Archives archives;
  Members members = {{"ILSVRC/Annotations/CLS-LOC/val/ILSVRC2012_val_00000001.xml", "<box/>"},
                     {"LOC_synset_mapping.txt", "n02100735 English setter\nn02110185 Siberian husky\nn02119789 kit fox\n"},
                     {"LOC_val_solution.csv", solution(kValClasses)},
                     {"ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG", "a test image"}};
  for (const auto& [wnid, files] : archives.classes) {
    for (const auto& [name, bytes] : files)
      members.emplace_back(fmt::format("ILSVRC/Data/CLS-LOC/train/{}/{}", wnid, name), bytes);
  }
  for (const auto& [name, bytes] : archives.val) members.emplace_back("ILSVRC/Data/CLS-LOC/val/" + name, bytes);
  write_zip(dir / "kaggle.zip", members);
  write_text(dir / "kaggle.tar", tar_of(members));
  for (const char* name : {"kaggle.zip", "kaggle.tar"}) {
    SCOPED_TRACE(name);
    const std::string set = dir / (std::string(name) + ".set");
    prepare_set({dir / name}, set);
    auto expected = archives.prepared();
    expected["synsets.txt"] = "n02100735 English setter\nn02110185 Siberian husky\nn02119789 kit fox\n";
    EXPECT_EQ(content(set), expected);
  }
}

TEST(PrepareImagenet, GoesOnAfterEveryFailure) {
  const TempDir dir;
  Archives().write(dir / "from");
  testing::expect_to_go_on(
      [&](const std::string& set, store::FileSystem& files) {
        PrepareOptions options;
        options.unpack.threads = 1;
        options.unpack.files = &files;
        prepare_set({dir / "from"}, set, options);
      },
      {"train", "val"});
}

// What a killed process left is compared, not trusted.
TEST(PrepareImagenet, MakesHalfWrittenFilesAgain) {
  const TempDir dir;
  const Archives archives;
  archives.write(dir / "from");
  const auto prepared_files = archives.prepared();
  const std::string path = "train.partial" + prepared_files.begin()->first.substr(5);
  const size_t size = prepared_files.begin()->second.size();
  write_text(fs::path(dir / "set") / path, std::string(size, '\0'));
  const Prepared prepared = prepare_set({dir / "from"}, dir / "set");
  EXPECT_EQ(prepared.folders[0].written, 9);
  auto expected = archives.prepared();
  expected["synsets.txt"] = kSynsets;
  EXPECT_EQ(content(dir / "set"), expected);
  // A folder of another set is none of this one's.
  write_text(dir / "other/train.partial/n01440764/n01440764_1.JPEG", "x");
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "other"); }), HasSubstr("n01440764/"));
}

TEST(PrepareImagenet, ComparesWhatIsThere) {
  const TempDir dir;
  Archives().write(dir / "from");
  prepare_set({dir / "from"}, dir / "set");
  const std::string image = dir / "set/val/n02119789/ILSVRC2012_val_00000002.JPEG";
  const std::vector<uint8_t> good = image::testing::read_file(image);
  std::vector<uint8_t> other = good;
  other[30] ^= 1;
  image::testing::write_file(image, other);
  PrepareOptions verify;
  verify.unpack.verify = true;
  prepare_set({dir / "from"}, dir / "set");
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set", verify); }),
              AllOf(HasSubstr("/set/val` is not what the archives hold"), HasSubstr("1 are missing or others"),
                    HasSubstr("n02119789/ILSVRC2012_val_00000002.JPEG")));
  fs::remove(image);
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); }),
              HasSubstr("ILSVRC2012_val_00000002.JPEG"));
  image::testing::write_file(image, good);
  prepare_set({dir / "from"}, dir / "set", verify);
  write_text(dir / "set/train/n02100735/mine.jpg", "mine");
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); }), HasSubstr("n02100735/mine.jpg"));
}

TEST(PrepareImagenet, ComparesChecksumsOfPublishedArchives) {
  const TempDir dir;
  Archives().write(dir / "from");
  PrepareOptions options;
  options.checksums = true;
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from/ILSVRC2012_img_train.tar"}, dir / "set", options); }),
              AllOf(HasSubstr("its MD5 is "), HasSubstr("not 1d675b47d978889d74fa0da5fadfb00e")));
  EXPECT_FALSE(fs::exists(dir / "set"));
}

TEST(PrepareImagenet, SaysWhereClassesHaveOtherCounts) {
  const TempDir dir;
  Archives archives;
  archives.classes["n02110185"].pop_back();
  archives.write(dir / "from");
  EXPECT_THAT(prepare_set({dir / "from"}, dir / "set").finding.problems,
              ElementsAre(HasSubstr("n02110185 has 3 training images, and ")));
}

// Archives that are bad in one way each, what is said of them, and that nothing is written.
struct BadCase {
  std::string what;
  std::function<void(const fs::path& from)> spoil;  // the good archives that lie there
  Exit code;
  std::vector<std::string> says;
};

void truncate_to(const fs::path& path, double share) {
  fs::resize_file(path, static_cast<uintmax_t>(static_cast<double>(fs::file_size(path)) * share));
}

template <class Change>
std::function<void(const fs::path&)> changed(Change change) {
  return [change](const fs::path& from) {
    Archives archives;
    change(archives);
    archives.write(from);
  };
}

std::vector<BadCase> bad_cases() {
  const auto train = [](const fs::path& from) { return from / "ILSVRC2012_img_train.tar"; };
  const auto val = [](const fs::path& from) { return from / "ILSVRC2012_img_val.tar"; };
  const auto devkit = [](const fs::path& from) { return from / "ILSVRC2012_devkit_t12.tar.gz"; };
  return {
      {"a cut archive",
       [=](const fs::path& f) { truncate_to(train(f), 0.6); },
       Exit::kData,
       {"a member is cut short", "copy it again"}},
      {"cut between two members",
       [=](const fs::path& f) { fs::resize_file(val(f), fs::file_size(val(f)) - 1024); },
       Exit::kData,
       {"ILSVRC2012_img_val.tar` ends without the mark", "copy it again"}},
      {"a cut devkit", [=](const fs::path& f) { truncate_to(devkit(f), 0.5); }, Exit::kData, {"cut short", "devkit"}},
      {"a class is missing",
       changed([](Archives& a) { a.classes.erase("n02100735"); }),
       Exit::kData,
       {"has no images of 1 of the 3 classes, n02100735 the first"}},
      {"a class has another set's name",
       changed([](Archives& a) { a.classes["classes"] = {}; }),
       Exit::kData,
       {"holds `classes.tar`, which is no class's archive"}},
      {"the devkit of another year",
       changed([](Archives& a) { a.devkit[1].second = mat("devkit_other.mat"); }),
       Exit::kData,
       {"has no field `ILSVRC2012_ID` but ILSVRC2010_ID, WNID", "meta.mat", "take ILSVRC2012_devkit_t12.tar.gz"}},
      {"a devkit whose meta.mat is none",
       changed([](Archives& a) { a.devkit[1].second = "MATLAB 7.3 MAT-file"; }),
       Exit::kData,
       {"cannot be read as a MAT-file", "meta.mat"}},
      {"a devkit without labels",
       changed([](Archives& a) { a.devkit.pop_back(); }),
       Exit::kData,
       {"has no ILSVRC2012_validation_ground_truth.txt"}},
      {"a label out of range",
       changed([](Archives& a) { a.devkit[2].second = "3\n1\n1001\n2\n3\n"; }),
       Exit::kData,
       {"label 3 is `1001`, and meta.mat has 3 classes without such a number"}},
      {"a label that is no number",
       changed([](Archives& a) { a.devkit[2].second = "3\n1\nfox\x1b[2J\n2\n3\n"; }),
       Exit::kData,
       {"label 3 is `fox\\x1b[2J`"}},
      {"too few labels",
       changed([](Archives& a) { a.devkit[2].second = "3\n1\n2\n2\n"; }),
       Exit::kData,
       {"holds image 5, and ", "labels 4 images"}},
      {"too many labels",
       changed([](Archives& a) { a.devkit[2].second += "1\n"; }),
       Exit::kData,
       {"lacks image 6: it holds 5 of the 6"}},
      {"a validation image is missing",
       changed([](Archives& a) { a.val.erase(a.val.begin() + 2); }),
       Exit::kData,
       {"lacks image 3: it holds 4 of the 5"}},
      {"a validation image is there twice",
       changed([](Archives& a) { a.val.push_back(a.val[0]); }),
       Exit::kData,
       {"holds `ILSVRC2012_val_00000001.JPEG` twice"}},
      {"a name that leads above",
       changed([](Archives& a) { a.val[1].first = "../ILSVRC2012_val_00000002.JPEG"; }),
       Exit::kData,
       {"holds `../ILSVRC2012_val_00000002.JPEG`, whose name leads elsewhere", "nothing of it was written"}},
      {"a name from the root",
       changed([](Archives& a) { a.val[1].first = "/tmp/ILSVRC2012_val_00000002.JPEG"; }),
       Exit::kData,
       {"whose name leads elsewhere"}},
      {"a name of another kind",
       changed([](Archives& a) { a.val[1].first = "val\n2.JPEG"; }),
       Exit::kData,
       {"holds `val\\n2.JPEG`"}},
      {"a link in the place of an image",
       [=](const fs::path& f) {
         const std::string one = tar_of({{Archives::val_name(1), picture(1)}});
         const std::string link = special_member(Archives::val_name(2), '2', "/etc/passwd");
         write_text(val(f), one.substr(0, one.size() - tar_end().size()) + link + tar_end());
       },
       Exit::kData,
       {"holds `ILSVRC2012_val_00000002.JPEG`, which is no plain file"}},
      {"no archive",
       [](const fs::path& f) { write_text(f / "notes.csv", "a,b\n"); },
       Exit::kUsage,
       {"notes.csv` is none of ImageNet's archives", "ILSVRC2012_img_train.tar"}},
      {"the training images twice",
       [=](const fs::path& f) { fs::copy_file(train(f), f / "other.tar"); },
       Exit::kUsage,
       {"both hold the training images"}},
      {"no labels",
       [=](const fs::path& f) { fs::remove(devkit(f)); },
       Exit::kUsage,
       {"the validation images have no labels", "LOC_val_solution.csv"}},
      {"no images",
       [=](const fs::path& f) {
         fs::remove(train(f));
         fs::remove(val(f));
       },
       Exit::kUsage,
       {"none of the files holds images"}},
      {"Kaggle's labels, damaged",
       [](const fs::path& f) {
         write_text(f / "LOC_val_solution.csv", "ImageId,PredictionString\nILSVRC2012_val_00000001,fox 1 2\n");
       },
       Exit::kData,
       {"`ILSVRC2012_val_00000001,fox 1 2` is no image with its class"}},
  };
}

TEST(PrepareImagenet, RefusesBadArchivesBeforeItWrites) {
  for (const BadCase& bad : bad_cases()) {
    SCOPED_TRACE(bad.what);
    const TempDir dir;
    Archives().write(dir / "from");
    bad.spoil(dir / "from");
    const std::string said = failure(bad.code, [&] { prepare_set({dir / "from"}, dir / "set"); });
    for (const std::string& part : bad.says) EXPECT_THAT(said, HasSubstr(part));
    EXPECT_FALSE(fs::exists(dir / "set"));
  }
  EXPECT_THAT(failure(Exit::kUsage, [] { files_given({"/no/such/place"}); }), HasSubstr("there is no `/no/such/place`"));
}

// What is wrong inside a class's archive shows when that is unpacked: the folder does not get its name, and nothing leaves it.
TEST(PrepareImagenet, RefusesBadImagesOfAClass) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {tar_of({{"../n02100735_1.JPEG", "x"}, {"n02100735_2.JPEG", "y"}}), "whose name leads elsewhere"},
      {tar_of({{"a/../../n02100735_1.JPEG", "x"}}), "whose name leads elsewhere"},
      {special_member("n02100735_1.JPEG", '2', "/etc/passwd") + tar_of({{"n02100735_2.JPEG", "y"}}), "which is no plain file"},
      {special_member("n02100735_1.JPEG", '1', "n02100735_2.JPEG") + tar_end(), "which is no plain file"},
      {tar_of({{"n02119789_1.JPEG", "x"}}), "no image of its class"},
      {tar_of({{"n02100735_1.JPEG", "x"}, {"n02100735_1.JPEG", "y"}}), "twice"},
      {tar_of({{"n02100735_1.JPEG", picture(1)}}).substr(0, 700), "a member is cut short"},
      {tar_of({{"n02100735_1.JPEG", "x"}}).substr(0, 1024), "ends without the mark"},
      {tar_end(), "holds no images"},
      {"text that is no tar archive, long enough for a header: " + std::string(512, '.'), "no tar archive"},
  };
  for (const auto& [bytes, says] : cases) {
    SCOPED_TRACE(says);
    const TempDir dir;
    Members members = Archives().train();
    members[0].second = bytes;
    write_text(dir / "from/train.tar", tar_of(members));
    const std::string said = failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); });
    EXPECT_THAT(said, AllOf(HasSubstr(says), HasSubstr("train.tar: n02100735.tar")));
    EXPECT_FALSE(fs::exists(dir / "set/train"));
    for (const auto& [path, content_of] : content(dir.path())) {
      EXPECT_TRUE(path.starts_with("from/") || path.starts_with("set/train.partial/n") || path == "set/train.finished") << path;
    }
    // Mended, it goes on.
    members[0].second = tar_of(Archives().classes.at("n02100735"));
    write_text(dir / "from/train.tar", tar_of(members));
    prepare_set({dir / "from"}, dir / "set");
    EXPECT_EQ(content(dir / "set").size(), 9u);
  }
}

TEST(PrepareImagenet, EstimatesTheRoomThatItNeeds) {
  const TempDir dir;
  Archives().write(dir / "from");
  const PreparePlan plan = plan_imagenet(files_given({dir / "from"}));
  const int64_t all = bytes_to_write(plan.folders, dir / "set", store::local_files());
  EXPECT_GT(all, plan.folders[0].bytes());
  EXPECT_LT(all, 1 << 20);
  prepare_set({dir / "from/ILSVRC2012_img_train.tar"}, dir / "set");
  EXPECT_EQ(bytes_to_write(plan.folders, dir / "set", store::local_files()), plan.folders[1].bytes());
  EXPECT_GT(store::free_bytes(dir / "not/there/yet").value_or(0), 0);
  // A plan that no disk has room for.
  PreparePlan large = plan;
  large.folders = {{"train", {{"group", int64_t{1} << 55, [] { return std::vector<UnpackedFile>(); }}}}};
  EXPECT_THAT(failure(Exit::kData, [&] { prepare(large, dir / "large", {}); }),
              AllOf(HasSubstr("needs about "), HasSubstr("and its disk has ")));
  EXPECT_FALSE(fs::exists(dir / "large"));
}

}  // namespace
}  // namespace tessera::data
