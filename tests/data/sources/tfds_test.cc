// tfds(…): data sets as TFDS prepares them.

#include <nlohmann/json.hpp>

#include "data/format_testing.h"
#include "data/formats/tfds_info.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using testing::range;

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
      {"train[:4]", range(0, 4)},
      {"train[4:]", range(4, 9)},
      {"train[-3:]", range(6, 9)},
      {"train[:-3]", range(0, 6)},
      {"train[:50%]", range(0, 4)},
      {"train[50%:]", range(4, 9)},
      {"train[10%:90%]", range(1, 8)},
      {"train[:10%]+train[-10%:]", {0, 8}},
      {"train[5:5]+test[:1]", {9}},
      {"train[ : 1_0%]", {0}},
      {"train[:1shard]", range(0, 4)},
      {"train[1shard]", range(4, 9)},
      {"train[-1shard:]", range(4, 9)},
      {"train[12.5%:25]", range(1, 2)},
      {"all", both(range(0, 9), range(9, 12))},
      {"train, even_splits=4, index=0", range(0, 3)},
      {"train[1:]+test, even_splits=3, index=2", {7, 8, 11}},
      {"train, even_splits=4, index=3, drop_remainder=true", range(6, 8)},
  };
  for (const auto& [split, which] : cases) {
    SCOPED_TRACE(split);
    expect_samples(*make_source(call("toy, split=" + split)), which);
    expect_samples(*make_source(call("toy/array, split=" + split)), which);
  }
}

TEST(TfdsSource, ListsAreTexts) {
  const auto source = make_source(call("listed, text=[texts, captions/text]"));
  testing::expect_captions(*source, 0);
  testing::expect_captions(*source, 1);
  EXPECT_TRUE(source->class_names().empty());  // a list of labels is no label
  EXPECT_THAT(open_error(call("listed, text=captions")), HasSubstr("no feature `captions`"));
}

// What TFDS says of a set with shards of 100, 0, 30 and 7 samples.
TEST(TfdsSplits, AreTfdsOwn) {
  using Ranges = std::vector<std::tuple<std::string, int64_t, int64_t>>;
  const auto reference = nlohmann::json::parse(testing::as_string(image::testing::read_file(kFormats + "/tfds_splits.json")));
  const std::vector<int64_t> train = {100, 0, 30, 7}, test = {9};
  const auto ranges = [&](const std::string& text, TfdsRounding rounding, int64_t index, int64_t count, bool drop) {
    Ranges out;
    for (const TfdsSlice& slice : parse_tfds_split(text, "split")) {
      const auto range = resolve_tfds_slice(slice, slice.split == "train" ? train : test, rounding);
      if (!range) return Ranges{{"beyond", 0, 0}};
      const TfdsRange part = even_tfds_part(*range, index, count, drop);
      out.emplace_back(slice.split, part.from, part.to);
    }
    return out;
  };
  for (const auto& [split, wanted] : reference["splits"].items()) {
    SCOPED_TRACE(split);
    const std::string text = split == "all" ? "train+test" : split;  // the set's own order: see TfdsSource.SlicesAsTfdsDoes
    EXPECT_EQ(ranges(text, TfdsRounding::kClosest, 0, 1, false), wanted.get<Ranges>());
  }
  for (const auto& [split, wanted] : reference["pct1"].items()) {
    EXPECT_EQ(ranges(split, TfdsRounding::kPct1DropRemainder, 0, 1, false), wanted.get<Ranges>()) << split;
  }
  ASSERT_EQ(reference["even"].size(), 48u);
  for (const auto& part : reference["even"]) {
    EXPECT_EQ(ranges(part["split"], TfdsRounding::kClosest, part["index"], part["n"], part["drop_remainder"]),
              part["ranges"].get<Ranges>())
        << part;
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
  EXPECT_THAT(open_error(call("toy, split=train[1.5:]"), Exit::kUsage), HasSubstr("cannot read the bound `1.5`"));
  EXPECT_THAT(open_error(call("toy, split=train[1shard:50%]"), Exit::kUsage), HasSubstr("have two units"));
  EXPECT_THAT(open_error(call("toy, split=all[:3]"), Exit::kUsage), HasSubstr("cut each split"));
  EXPECT_THAT(open_error(call("toy, split=train[:5%], rounding=pct1_dropremainder"), Exit::kUsage), HasSubstr("a hundred"));
  EXPECT_THAT(open_error(call("toy, rounding=closets"), Exit::kUsage), HasSubstr("did you mean `closest`?"));
  EXPECT_THAT(open_error(call("toy, even_splits=0"), Exit::kUsage), HasSubstr("must be at least 1"));
  EXPECT_THAT(open_error(call("toy, even_splits=3"), Exit::kUsage), HasSubstr("`index` is missing"));
  EXPECT_THAT(open_error(call("toy, even_splits=3, index=3"), Exit::kUsage), HasSubstr("the parts are 0 to 2"));
  EXPECT_THAT(open_error(call("toy, split=train[3:3]")), HasSubstr("holds no samples"));
  EXPECT_THAT(open_error(call("toy, image=imago")), AllOf(HasSubstr("no feature `imago`"), HasSubstr("`image`")));
  EXPECT_THAT(open_error(call("toy, text=captio")), HasSubstr("`caption`"));
}

// A copy of the reference set, to be damaged.
struct Copy {
  Copy() { fs::copy(kFormats + "/tfds", dir.path(), fs::copy_options::recursive); }
  std::string path(const std::string& name) const { return dir / ("toy/1.0.0/" + name); }
  std::string text(const std::string& name) const { return testing::as_string(image::testing::read_file(path(name))); }
  void write(const std::string& name, const std::string& content) const {
    image::testing::write_file(path(name), {content.begin(), content.end()});
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

TEST(TfdsInfo, NamesOfFilesDoNotGrowWithoutEnd) {
  const auto times = [](const char* text) {
    std::string all;
    for (int i = 0; i < 400; ++i) all += text;
    return all;
  };
  const TfdsInfo info{times("{SPLIT}"), "tfrecord", {}, {}};
  EXPECT_THROW(tfds_shard_name(info, {times("{NUM_SHARDS}"), times("{DATASET}"), {1}}, 0), Error);
  EXPECT_EQ(tfds_shard_name(info, {"train", "x-{SPLIT}.{SHARD_INDEX}", {1}}, 0), "x-train.00000");
}

TEST(TfdsInfo, LengthsOfShardsAreAddedUpWithoutOverflow) {
  const std::string most = std::to_string(int64_t{1} << 50);
  const auto info = [&](const std::string& lengths) {
    return R"({"name": "a", "splits": [{"name": "train", "shardLengths": [)" + lengths + "]}]}";
  };
  EXPECT_EQ(parse_tfds_info("f", info(most + ", 0")).splits[0].shard_lengths.size(), 2);
  EXPECT_THROW(parse_tfds_info("f", info(most + ", 1")), Error);
}

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
