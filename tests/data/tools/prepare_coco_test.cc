// tessera data prepare coco: zips in COCO's structure, whole ones and bad ones.

#include "data/prepare_testing.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::content;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Members;
using testing::picture;
using testing::TempDir;
using testing::write_text;
using testing::write_zip;

std::string image_name(int id) { return fmt::format("{:012}.jpg", id); }

// As COCO's files have it: more than is read, in another order.
constexpr const char* kImages = R"("info": {"year": 2017, "n": [[1, {"a": null}]]},
 "images": [{"license": 4, "file_name": "000000000009.jpg", "height": 480, "id": 9},
            {"license": 1, "file_name": "000000000025.jpg", "id": 25, "url": "http://x/25.jpg"},
            {"file_name": "000000000030.jpg", "id": 30}])";
constexpr const char* kCaptions = R"("annotations": [{"image_id": 25, "id": 12, "caption": "A giraffe.\n"},
   {"image_id": 9, "id": 11, "caption": "A plate \"with\" food"}, {"image_id": 25, "id": 8, "caption": "Zwei Bäume"}])";
constexpr const char* kObjects = R"("annotations": [
   {"segmentation": [[1.5, 2.5, 3e2]], "area": 1.5, "iscrowd": 0, "image_id": 9, "bbox": [1, 2, 3, 4], "category_id": 51, "id": 1},
   {"segmentation": {"counts": [1, 2], "size": [4, 4]}, "image_id": 9, "category_id": 1, "id": 2},
   {"image_id": 9, "category_id": 51, "id": 3}, {"image_id": 25, "category_id": 25, "id": 4}],
 "categories": [{"supercategory": "person", "id": 1, "name": "person"}, {"id": 51, "name": "bowl"}, {"id": 25, "name": "giraffe"}])";

Members images(const std::string& split, const std::vector<int>& ids) {
  Members out = {{split + "/", ""}};
  for (const int id : ids) out.emplace_back(split + "/" + image_name(id), picture(id));
  return out;
}

Members annotations(const std::string& captions = kCaptions, const std::string& objects = kObjects,
                    const std::string& listed = kImages) {
  const auto file = [&](const std::string& rest) { return "{" + listed + ", " + rest + "}"; };
  return {
      {"annotations/captions_train2017.json", file(captions)},
      {"annotations/instances_train2017.json", file(objects)},
      {"annotations/captions_val2017.json", R"({"images": [{"id": 1, "file_name": "000000000001.jpg"}], "annotations": []})"}};
}

void write_archives(const TempDir& dir, const Members& notes = annotations(), const std::vector<int>& ids = {9, 25, 30}) {
  fs::create_directories(dir / "from");
  write_zip(dir / "from/train2017.zip", images("train2017", ids));
  write_zip(dir / "from/annotations_trainval2017.zip", notes);
}

Prepared prepare_set(const std::vector<std::string>& from, const std::string& dir, const PrepareOptions& options = {}) {
  return prepare(plan_coco(files_given(from), dir), dir, options);
}

const std::map<std::string, std::string> kPrepared = {
    {"train2017/000000000009.jpg", picture(9)},
    {"train2017/000000000025.jpg", picture(25)},
    {"train2017/000000000030.jpg", picture(30)},
    {"train2017.jsonl",
     R"({"image":"train2017/000000000009.jpg","captions":["A plate \"with\" food"],"labels":["person","bowl"]}
{"image":"train2017/000000000025.jpg","captions":["Zwei Bäume","A giraffe."],"labels":["giraffe"]}
{"image":"train2017/000000000030.jpg","captions":[],"labels":[]}
)"},
    {"classes.txt", "person\ngiraffe\nbowl\n"},
};

TEST(PrepareCoco, MakesImagesAndLists) {
  const TempDir dir;
  write_archives(dir);
  const Prepared prepared = prepare_set({dir / "from"}, dir / "set");
  EXPECT_EQ(content(dir / "set"), kPrepared);
  EXPECT_THAT(prepared.finding.problems, IsEmpty());
  EXPECT_THAT(prepared.finding.notes, ElementsAre("3 images of train2017, of the 118,287 of COCO"));
  // What sources make of it.
  ASSERT_EQ(prepared.finding.sources.size(), 2u);
  const auto captions = make_source(prepared.finding.sources[0]), labels = make_source(prepared.finding.sources[1]);
  EXPECT_EQ(captions->size(), 3);
  Sample sample;
  ASSERT_FALSE(captions->read(1, sample));
  EXPECT_THAT(sample.texts[0], ElementsAre("Zwei Bäume", "A giraffe."));
  EXPECT_EQ(std::string(sample.image.begin(), sample.image.end()), picture(25));
  EXPECT_THAT(labels->class_names(), ElementsAre("person", "giraffe", "bowl"));
  ASSERT_FALSE(labels->read(0, sample));
  EXPECT_THAT(class_names_of(*labels, sample), ElementsAre("person", "bowl"));
}

TEST(PrepareCoco, TakesOneAfterTheOther) {
  const TempDir dir;
  write_archives(dir);
  const Prepared images_alone = prepare_set({dir / "from/train2017.zip"}, dir / "set");
  EXPECT_THAT(images_alone.finding.notes.back(), HasSubstr("annotations_trainval2017.zip"));
  EXPECT_THAT(images_alone.finding.sources, IsEmpty());
  prepare_set({dir / "from/annotations_trainval2017.zip"}, dir / "set");
  EXPECT_EQ(content(dir / "set"), kPrepared);
  EXPECT_TRUE(prepare_set({dir / "from"}, dir / "set").folders[0].kept);
}

// Half-written lists of killed processes are removed. Files of the user's with similar names stay.
TEST(PrepareCoco, RemovesNothingOfTheUsers) {
  const TempDir dir;
  write_archives(dir);
  const std::string set = dir / "set", dead = ".tmp-4194304";  // of no process that can be
  const std::vector<std::string> lists = {"train2017.jsonl" + dead, "classes.txt" + dead};
  const std::vector<std::string> own = {"notes" + dead, "val2017.jsonl" + dead, "papers/classes.txt" + dead};
  for (const auto* names : {&lists, &own}) {
    for (const std::string& name : *names) testing::write_text(fs::path(set) / name, "mine");
  }
  EXPECT_ANY_THROW(prepare_set({dir / "from/annotations_trainval2017.zip"}, set));
  for (const std::string& name : lists) EXPECT_TRUE(fs::exists(fs::path(set) / name)) << name;
  prepare_set({dir / "from"}, set);
  for (const std::string& name : lists) EXPECT_FALSE(fs::exists(fs::path(set) / name)) << name;
  for (const std::string& name : own) EXPECT_TRUE(fs::exists(fs::path(set) / name)) << name;
}

TEST(PrepareCoco, GoesOnAfterEveryFailure) {
  const TempDir dir;
  write_archives(dir);
  testing::expect_to_go_on(
      [&](const std::string& set, store::FileSystem& files) {
        PrepareOptions options;
        options.unpack.threads = 1;
        options.unpack.files = &files;
        prepare_set({dir / "from"}, set, options);
      },
      {"train2017"});
}

TEST(PrepareCoco, SaysWhatIsMissing) {
  const TempDir dir;
  write_archives(dir, annotations(), {9, 25});
  EXPECT_THAT(prepare_set({dir / "from"}, dir / "set").finding.problems,
              ElementsAre("train2017: 1 annotated images are not there, 000000000030.jpg the first; they are left out"));
}

// What a zip says of a member's size, which is all that is known before it is unpacked.
void claim_size(const std::string& zip, const std::string& member, uint32_t size) {
  constexpr size_t kNameAt = 46, kSizeAt = 24;  // in the member's header at the end of the file
  std::string bytes = testing::as_string(image::testing::read_file(zip));
  const size_t at = bytes.rfind(member) - kNameAt + kSizeAt;
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(size >> 8 * i);
  write_text(zip, bytes);
}

TEST(PrepareCoco, RefusesZipsThatUnpackToFarMoreThanTheyHave) {
  const TempDir dir;
  const std::string captions = "annotations/captions_train2017.json", first = "train2017/000000000009.jpg";
  std::string noise(600'000, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = 1664525 * state + 1013904223) >> 24);
  write_archives(dir, {{captions, noise}});
  claim_size(dir / "from/annotations_trainval2017.zip", captions, 600u << 20);
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); }),
              HasSubstr("has 600.00 MiB, more than 512.00 MiB"));
  EXPECT_FALSE(fs::exists(dir / "set/annotations.partial"));

  write_zip(dir / "bomb.zip", {{first, noise}, {"train2017/000000000025.jpg", noise}});
  claim_size(dir / "bomb.zip", first, 600u << 20);
  claim_size(dir / "bomb.zip", "train2017/000000000025.jpg", 600u << 20);
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "bomb.zip"}, dir / "other"); }),
              HasSubstr("unpacks to more than 1.17 GiB"));
  EXPECT_FALSE(fs::exists(dir / "other"));
}

TEST(PrepareCoco, LinksAreNotFollowed) {
  const TempDir dir;
  write_archives(dir);
  write_text(dir / "precious/file", "text");
  const fs::path precious = dir / "precious", set = dir / "set";
  for (const fs::path name :
       {"annotations.partial", "train2017.finished", "train2017.partial", "train2017.partial/000000000009.jpg"}) {
    SCOPED_TRACE(name);
    fs::create_directories((set / name).parent_path());
    if (name == "train2017.partial") {
      fs::create_directory_symlink(precious, set / name);
    } else {
      fs::create_symlink(precious / "file", set / name);
    }
    EXPECT_ANY_THROW(prepare_set({dir / "from"}, set));
    EXPECT_EQ(content(precious), (std::map<std::string, std::string>{{"file", "text"}}));
    fs::remove_all(set);
  }
}

TEST(PrepareCoco, RefusesBadArchives) {
  const auto with_captions = [](const std::string& captions) { return annotations(captions); };
  const std::vector<std::pair<Members, std::string>> bad_annotations = {
      {with_captions(R"("annotations": [{"image_id": 9, "id": 1, "caption": "x")"), "cannot be read as JSON"},
      {with_captions(R"("annotations": {"image_id": 9})"), "`annotations` is no list"},
      {with_captions(R"("annotations": [{"image_id": "nine", "id": 1, "caption": "x"}])"), "an element has no `image_id`"},
      {annotations(kCaptions, R"("annotations": [{"image_id": 9, "category_id": 90}], "categories": [])"),
       "image 9 has an object of category 90"},
      {annotations(kCaptions, R"("categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}])"),
       "the categories 1 and 2 are both called `a`"},
      {annotations(kCaptions, R"("categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}])"),
       "the category 1 is called `a` and `b`"},
      {annotations(kCaptions, R"("categories": [{"id": 1, "name": "a\nb"}])"), "`a\\nb` is no category's name"},
      {annotations(kCaptions, R"("categories": [{"id": 18446744073709551615, "name": "a"}])"),
       "has as its `id` 18446744073709551615"},
      {annotations(kCaptions, kObjects, R"("images": [{"id": 9, "file_name": "../9.jpg"}])"), "`../9.jpg` is no image's name"},
  };
  for (const auto& [members, says] : bad_annotations) {
    SCOPED_TRACE(says);
    const TempDir dir;
    write_archives(dir, members);
    EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); }),
                AllOf(HasSubstr(says), HasSubstr("annotations_trainval2017.zip")));
    EXPECT_FALSE(fs::exists(dir / "set/annotations.partial"));
    EXPECT_FALSE(fs::exists(dir / "set/train2017.jsonl"));
  }
  const TempDir dir;
  write_archives(dir);
  write_zip(dir / "hostile.zip", {{"val2017/000000000001.jpg", "x"}, {"val2017/../../2.jpg", "y"}});
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "hostile.zip"}, dir / "set"); }),
              HasSubstr("whose name leads elsewhere"));
  write_zip(dir / "other.zip", {{"photos/1.jpg", "x"}});
  EXPECT_THAT(failure(Exit::kUsage, [&] { prepare_set({dir / "other.zip"}, dir / "set"); }),
              HasSubstr("is none of COCO's archives"));
  EXPECT_THAT(failure(Exit::kUsage, [&] { prepare_set({dir / "from/annotations_trainval2017.zip"}, dir / "set"); }),
              HasSubstr("the annotations have no images"));
  EXPECT_FALSE(fs::exists(dir / "set"));
  // A byte of an image that is another: the zip's own checksum tells.
  std::string bytes = testing::as_string(image::testing::read_file(dir / "from/train2017.zip"));
  const size_t at = bytes.find("000000000025.jpg") + 200;
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_text(dir / "from/train2017.zip", bytes);
  EXPECT_THAT(failure(Exit::kData, [&] { prepare_set({dir / "from"}, dir / "set"); }),
              AllOf(HasSubstr("train2017/000000000025.jpg` is damaged"), HasSubstr("train2017.zip")));
  EXPECT_FALSE(fs::exists(dir / "set/train2017"));
}

}  // namespace
}  // namespace tessera::data
