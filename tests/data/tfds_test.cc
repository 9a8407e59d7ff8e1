// tfds(…): data sets as TFDS prepares them.

#include "data/format_testing.h"
#include "data/formats/tfds_info.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using testing::range;
using testing::TempDir;

std::string call(const std::string& arguments, const std::string& data_dir = kFormats + "/tfds") {
  return "tfds(" + arguments + ", data_dir=" + data_dir + ")";
}

std::vector<size_t> both(std::vector<size_t> a, const std::vector<size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(TfdsSource, ReadsWhatTfdsPrepared) {
  for (const std::string name : {"toy", "toy:1.0.0", "toy/array", "toy/array:1.0.0"}) {
    SCOPED_TRACE(name);
    const auto train = make_source(call(name + ", text=caption"));
    EXPECT_EQ(train->class_names(), testing::kClasses);
    EXPECT_EQ(train->facts().shards, 2);
    expect_samples(*train, range(0, 9));
    expect_samples(*make_source(call(name + ", split=test")), range(9, 12));
    expect_samples(*make_source(call(name + ", test+train[2:4]")), both(range(9, 12), range(2, 4)));
  }
  EXPECT_EQ(make_source(call("toy"))->id(5), "toy-train.tfrecord-00001-of-00002#1");
  EXPECT_EQ(make_source(call("toy"))->name(), kFormats + "/tfds/toy/1.0.0");
  expect_samples(*make_source(call("toy, label=none, image=image")), range(0, 9));
}

TEST(TfdsSource, SlicesAsTfdsDoes) {
  const std::vector<std::pair<std::string, std::vector<size_t>>> cases = {
      {"train[:4]", range(0, 4)},      {"train[4:]", range(4, 9)},           {"train[-3:]", range(6, 9)},
      {"train[:-3]", range(0, 6)},     {"train[:50%]", range(0, 4)},         {"train[50%:]", range(4, 9)},
      {"train[10%:90%]", range(1, 8)}, {"train[:10%]+train[-10%:]", {0, 8}}, {"train[5:5]+test[:1]", {9}},
      {"train[ : 1_0%]", {0}},
  };
  for (const auto& [split, which] : cases) {
    SCOPED_TRACE(split);
    expect_samples(*make_source(call("toy, split=" + split)), which);
    expect_samples(*make_source(call("toy/array, split=" + split)), which);
  }
}

TEST(TfdsSource, MistakesAreExplained) {
  EXPECT_THAT(open_error(call("tov")), AllOf(HasSubstr("no data set `tov`"), HasSubstr("did you mean `toy`?")));
  EXPECT_THAT(open_error(call("toy", "/nowhere")), HasSubstr("data_dir=…"));
  EXPECT_THAT(open_error(call("toy:2.0.0")), AllOf(HasSubstr("2.0.0/dataset_info.json"), HasSubstr("1.0.0")));
  EXPECT_THAT(open_error(call("toy, split=tran")), AllOf(HasSubstr("no split `tran`"), HasSubstr("`train`")));
  EXPECT_THAT(open_error(call("toy, split=train[:10]"), Exit::kUsage), HasSubstr("beyond the 9 of the split `train`"));
  EXPECT_THAT(open_error(call("toy, split=train[:101%]"), Exit::kUsage), HasSubstr("beyond"));
  EXPECT_THAT(open_error(call("toy, split=train[:x]"), Exit::kUsage), HasSubstr("cannot read the bound `x`"));
  EXPECT_THAT(open_error(call("toy, split=train[3]"), Exit::kUsage), HasSubstr("train[:1000]"));
  EXPECT_THAT(open_error(call("toy, split=train+"), Exit::kUsage), HasSubstr("has no name"));
  EXPECT_THAT(open_error(call("toy, split=train[3:3]")), HasSubstr("holds no samples"));
  EXPECT_THAT(open_error(call("toy, image=imago")), AllOf(HasSubstr("no feature `imago`"), HasSubstr("`image`")));
  EXPECT_THAT(open_error(call("toy, text=captio")), HasSubstr("`caption`"));
}

// A copy of the reference set, to be damaged.
struct Copy {
  Copy() { fs::copy(kFormats + "/tfds", dir.path(), fs::copy_options::recursive); }
  std::string path(const std::string& name) const { return dir / ("toy/1.0.0/" + name); }
  std::string text(const std::string& name) const { return testing::as_string(testing::read_file(path(name))); }
  void write(const std::string& name, const std::string& content) const {
    testing::write_file(path(name), {content.begin(), content.end()});
  }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string content = text(name);
    const size_t at = content.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(name, content.replace(at, from.size(), to));
  }
  std::string error() const { return open_error(call("toy", dir.path())); }
  TempDir dir;
};

TEST(TfdsSource, DamageIsNamed) {
  {
    const Copy copy;
    fs::remove(copy.path("toy-train.tfrecord-00001-of-00002"));
    EXPECT_THAT(copy.error(), AllOf(HasSubstr("1 of 2 shards is missing"), HasSubstr("toy-train.tfrecord-00001-of-00002")));
  }
  {
    const Copy copy;
    copy.replace("dataset_info.json", "\"4\"", "\"3\"");
    EXPECT_THAT(copy.error(), AllOf(HasSubstr("toy-train.tfrecord-00000-of-00002"), HasSubstr("says 3")));
  }
  {
    const Copy copy;
    copy.replace("dataset_info.json", "\"tfrecord\"", "\"riegeli\"");
    EXPECT_THAT(copy.error(), HasSubstr("shards are missing"));
    fs::rename(copy.path("toy-train.tfrecord-00000-of-00002"), copy.path("toy-train.riegeli-00000-of-00002"));
    fs::rename(copy.path("toy-train.tfrecord-00001-of-00002"), copy.path("toy-train.riegeli-00001-of-00002"));
    EXPECT_THAT(copy.error(), AllOf(HasSubstr("riegeli"), HasSubstr("--file_format=array_record")));
  }
  for (const char* file : {"dataset_info.json", "features.json"}) {
    const Copy copy;
    copy.write(file, "{");
    EXPECT_THAT(copy.error(), AllOf(HasSubstr(file), HasSubstr("no JSON object")));
    copy.write(file, "{}");
    EXPECT_THAT(copy.error(), AllOf(HasSubstr(file), HasSubstr("prepare the data set again")));
    fs::remove(copy.path(file));
    EXPECT_THAT(copy.error(), HasSubstr(file));
  }
  {
    const Copy copy;
    fs::remove(copy.path("label.labels.txt"));
    EXPECT_THAT(make_source(call("toy", copy.dir.path()))->class_names(), ElementsAre("0", "1", "2"));
  }
}

TEST(TfdsSource, ChoosesVersionsAndConfigurations) {
  const Copy copy;
  fs::rename(copy.dir / "toy/1.0.0", copy.dir / "toy/array/10.0.0");
  // TFDS's own note of the default configuration.
  EXPECT_EQ(make_source(call("toy", copy.dir.path()))->id(0), "toy-train.tfrecord-00000-of-00002#0");
  EXPECT_EQ(make_source(call("toy/array", copy.dir.path()))->id(0), "toy-train.tfrecord-00000-of-00002#0");
  EXPECT_EQ(make_source(call("toy/array:1.0.0", copy.dir.path()))->id(0), "toy-train.array_record-00000-of-00002#0");
  fs::remove_all(copy.dir / "toy/.config");
  EXPECT_EQ(make_source(call("toy", copy.dir.path()))->size(), 9);
  fs::create_directories(copy.dir / "toy/other");
  EXPECT_THAT(copy.error(), AllOf(HasSubstr("several configurations"), HasSubstr("array, other")));
}

}  // namespace
}  // namespace tessera::data
