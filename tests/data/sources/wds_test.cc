// wds(…): archives of the webdataset library and of Python's tarfile, and everything that can be wrong with them.

#include "data/format_testing.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/tar.h"
#include "data/formats/webdataset.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using testing::range;

std::string member(const std::string& name, const std::string& data) {
  const auto size = static_cast<int64_t>(data.size());
  return tar_header(name, size) + data + tar_padding(size);
}

void write_text(const std::string& path, const std::string& text) {
  image::testing::write_file(path, {text.begin(), text.end()});
}

std::string reason(const Source& source, int64_t index) {
  Sample sample;
  return source.read(index, sample).value_or("read");
}

TEST(WdsSource, ReadsTheLibrarysArchives) {
  const std::string pattern = kFormats + "/wds/train-{000..001}.tar";
  const auto source = make_source("wds(" + pattern + ", text=[txt, json.caption])");
  EXPECT_EQ(source->size(), 12);
  EXPECT_EQ(source->class_names().size(), 3u);
  EXPECT_EQ(source->id(8), "train-001.tar:some.folder/08");
  EXPECT_THAT(source->text_fields(), ElementsAre("txt", "json.caption"));
  expect_samples(*source, range(0, 12));
  Sample sample;
  ASSERT_FALSE(source->read(3, sample));
  EXPECT_EQ(sample.texts[1][0], testing::reference_samples()[3].caption);
  const auto named = make_source("wds(" + pattern + ", label=json.name)");
  EXPECT_EQ(named->class_names(), testing::kClasses);
  expect_samples(*named, range(0, 12));
  expect_samples(*make_source("wds(" + pattern + ", label=none)"), range(0, 12));
}

TEST(WdsSource, ReadsLongNames) {
  for (const char* name : {"pax", "gnu"}) {
    SCOPED_TRACE(name);
    const auto source = make_source("wds(" + kFormats + "/wds/" + name + ".tar)");
    expect_samples(*source, range(0, 3));
    EXPECT_THAT(source->id(1), AllOf(HasSubstr("deep/deep/"), HasSubstr("näher-0101")));
  }
}

TEST(WdsSource, GroupsByKey) {
  const TempDir dir;
  write_text(dir / "a.tar", member("__meta__/x.jpg", "no") + member("./k/1.b.JPG", "first") + member("k/1.cls", " 4\n") +
                                member("k/2.jpg", "second") + member(".hidden", "no") + member("nodot", "no") +
                                member("k/2.cls", "0") + member("k/2.b.jpg", "third") + tar_end());
  const auto source = make_source("wds(" + (dir / "a.tar") + ", image=b.jpg;jpg)");
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->class_names().size(), 5u);
  Sample sample;
  ASSERT_FALSE(source->read(0, sample));
  EXPECT_THAT(std::string(sample.image.begin(), sample.image.end()), "first");
  EXPECT_EQ(sample.label, 4);
  ASSERT_FALSE(source->read(1, sample));
  EXPECT_THAT(std::string(sample.image.begin(), sample.image.end()), "third");
  const auto name = parse_wds_name("a.b/c.Seg.PNG");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->key, "a.b/c");
  EXPECT_EQ(name->extension, "seg.png");
  for (const char* no : {"a.b/c", "a/.c", "", "__x__", "__x__/a.jpg"}) EXPECT_FALSE(parse_wds_name(no)) << no;
  EXPECT_TRUE(parse_wds_name("__x_/a.jpg"));
}

TEST(WdsSource, MistakesAreExplained) {
  const TempDir dir;
  const std::string call = "wds(" + (dir / "a.tar");
  const std::string good = member("1.jpg", "x") + member("1.cls", "0");
  write_text(dir / "a.tar", good + member("1.jpg", "y"));
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("`1` has two members .jpg at offset 2048"), HasSubstr(dir / "a.tar")));
  write_text(dir / "a.tar", good + member("2.jpg", "y") + member("2.cls", "0") + member("1.txt", "y"));
  EXPECT_THAT(open_error(call + ")"),
              AllOf(HasSubstr("the key `1` comes again at offset 4096"), HasSubstr("sort the archive")));
  write_text(dir / "a.tar", member("1.ppm", "x") + member("1.cls", "0"));
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("has no image"), HasSubstr(".ppm, .cls"), HasSubstr("image=…")));
  write_text(dir / "a.tar", good);
  EXPECT_THAT(open_error(call + ", text=txt)"), AllOf(HasSubstr("has no `txt`"), HasSubstr("json.NAME")));
  EXPECT_THAT(open_error(call + ", label=json.x)"), HasSubstr("has no `json.x`"));
  write_text(dir / "a.tar", tar_end());
  EXPECT_THAT(open_error(call + ")"), HasSubstr("no samples"));
  write_text(dir / "a.tar", "this is no archive");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("cut short at offset 0"));
  write_text(dir / "a.tar", std::string(1000, 'x'));
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("no tar archive"), HasSubstr("uncompressed")));
  write_text(dir / "a.tar", good.substr(0, 1024) + member("2.jpg", std::string(2000, 'y')).substr(0, 1500));
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("cut short at offset 1024"), HasSubstr("copy it")));
  std::string wrong = good;
  wrong[1024] ^= 1;
  write_text(dir / "a.tar", wrong);
  EXPECT_THAT(open_error(call + ")"), HasSubstr("wrong checksum of a member's header at offset 1024"));
  // A block that the disk lost looks like the archive's end, and so does a download that did not fill its file.
  write_text(dir / "a.tar", good + std::string(4096, '\0') + member("2.jpg", "y") + tar_end());
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("zeros in the place of a member, and 5632 bytes behind it at offset " +
                                                      std::to_string(good.size())),
                                            HasSubstr("copy it again"), HasSubstr("that were joined")));
  write_text(dir / "a.tar", good + std::string((1 << 20) + 512, '\0'));
  EXPECT_THAT(open_error(call + ")"), HasSubstr("zeros in the place of a member, and 1048576 bytes behind it"));
  write_text(dir / "a.tar", good + std::string(1 << 20, '\0'));
  EXPECT_EQ(make_source(call + ")")->size(), 1);
  EXPECT_THAT(open_error("wds(" + (dir / "a-{00..03}.tar") + ")"), AllOf(HasSubstr("a-00.tar"), HasSubstr("No such file")));
}

TEST(WdsSource, OddSamplesAreReasons) {
  const TempDir dir;
  write_text(dir / "a.tar", member("1.jpg", "x") + member("1.cls", "0") + member("2.cls", "1") + member("3.jpg", "y") +
                                member("4.jpg", "x") + member("4.cls", "7") + tar_end());
  const auto source = make_source("wds(" + (dir / "a.tar") + ", classes=2)");
  EXPECT_EQ(reason(*source, 0), "read");
  EXPECT_THAT(reason(*source, 1), HasSubstr("it has no image, only .cls"));
  EXPECT_THAT(reason(*source, 2), HasSubstr("it has no label `cls`"));
  EXPECT_THAT(reason(*source, 3), HasSubstr("its label 7 is not one of 2 classes"));
}

TEST(WdsSource, SamplesOfVeryManyMembersAreRefused) {
  std::string bytes;
  for (int i = 0; i <= 1000; ++i) bytes += member(fmt::format("a.{}", i), "");
  const BytesFile file(bytes);
  try {
    scan_wds("a.tar", file);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("the sample `a` has more than 1000 members"));
  }
}

TEST(Tar, HeadersReadBack) {
  for (const std::string& name : {std::string("a"), std::string(100, 'b'), std::string(60, 'c') + "/" + std::string(90, 'd'),
                                  std::string(300, 'e') + "/f", "g/" + std::string(150, 'h')}) {
    const std::string bytes = member(name, "data") + tar_end();
    const BytesFile file(bytes);
    Window window(file);
    const auto found = read_tar_member("", window, 0);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, name);
    EXPECT_EQ(bytes.substr(static_cast<size_t>(found->data), 4), "data");
    EXPECT_EQ(found->size, 4);
    EXPECT_FALSE(read_tar_member("", window, found->end));
  }
}

}  // namespace
}  // namespace tessera::data
