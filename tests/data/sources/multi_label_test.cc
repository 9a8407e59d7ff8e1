// Sources whose samples have any number of labels: csv, jsonl, Parquet and converted sets; what is counted of them, kept in an
// index and in caches, and put into batches.

#include <nlohmann/json.hpp>

#include "data/cache/cache.h"
#include "data/format_testing.h"
#include "data/loader/loader.h"
#include "data/relabelled.h"
#include "data/tools/check.h"
#include "data/tools/convert/convert.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using ::testing::Optional;

using Lists = std::vector<std::vector<int32_t>>;

void write_text(const std::string& path, const std::string& text) {
  image::testing::write_file(path, {text.begin(), text.end()});
}

// Four pictures, 0.png to 3.png.
void write_images(const TempDir& dir) {
  for (int i = 0; i < 4; ++i) {
    image::testing::write_file(dir / (std::to_string(i) + ".png"),
                               image::testing::png_bytes(image::testing::photo(16, 12, static_cast<uint32_t>(i))));
  }
}

// What reading gives, and whether the index says the same.
Lists lists_of(const Source& source) {
  EXPECT_TRUE(source.multi_label());
  EXPECT_EQ(source.labels(), std::nullopt);
  Lists lists;
  Sample sample;
  for (int64_t i = 0; i < source.size(); ++i) {
    EXPECT_EQ(source.read(i, sample), std::nullopt);
    lists.push_back(sample.labels);
  }
  EXPECT_THAT(source.label_lists(), Optional(lists));
  EXPECT_THAT(source.class_sizes(), Optional(count_classes(lists, source.class_names().size())));
  return lists;
}

std::string reason(const Source& source, int64_t index) {
  Sample sample;
  return source.read(index, sample).value_or("read");
}

const Lists kLists = {{0, 2}, {}, {1}, {0, 1, 2}};
const std::vector<std::string> kTags = {"cat", "dog", "owl"};

std::string tag_table(const TempDir& dir) {
  write_images(dir);
  write_text(dir / "tags.csv", "image,tags\n0.png,owl  cat owl\n1.png,\n2.png,dog\n3.png,cat dog owl\n");
  return dir / "tags.csv";
}

TEST(MultiLabel, CsvSplitsAField) {
  const TempDir dir;
  const std::string path = tag_table(dir);
  const auto source = make_source("csv(" + path + ", labels=tags)");
  EXPECT_EQ(source->class_names(), kTags);
  EXPECT_EQ(lists_of(*source), kLists);
  // The order of the classes is a file's where that is given, and other delimiters keep what holds spaces together.
  write_text(dir / "names.txt", "owl\ndog\ncat\nfox\n");
  EXPECT_EQ(lists_of(*make_source("csv(" + path + ", labels=tags, classes=" + (dir / "names.txt") + ")")),
            (Lists{{0, 2}, {}, {1}, {0, 1, 2}}));
  write_text(dir / "bars.csv", "image,Finding Labels\n0.png,Mass | No Finding\n1.png,|\n2.png,Mass\n");
  const auto bars = make_source("csv(" + (dir / "bars.csv") + ", labels=\"Finding Labels\", label_delim=\"|\")");
  EXPECT_THAT(bars->class_names(), ElementsAre("Mass", "No Finding"));
  EXPECT_EQ(lists_of(*bars), (Lists{{0, 1}, {}, {0}}));
  write_text(dir / "numbers.csv", "image;label\n0.png;3 0\n1.png;\n2.png;1\n");
  const auto numbers = make_source("csv(" + (dir / "numbers.csv") + ", sep=\";\", labels=label)");
  EXPECT_EQ(numbers->class_names().size(), 4u);
  EXPECT_EQ(lists_of(*numbers), (Lists{{0, 3}, {}, {1}}));
}

// A forgotten label_delim makes classes of whole fields.
TEST(MultiLabel, LabelsThatLookLikeSeveralAreSaid) {
  const TempDir dir;
  const auto said = [&](const std::string& tags, const std::string& more = "") {
    write_text(dir / "a.csv", "image,tags\n0.png,\"" + tags + "\"\n");
    write_text(dir / "0.png", "x");
    ::testing::internal::CaptureStderr();
    make_source("csv(" + (dir / "a.csv") + ", labels=tags" + more + ")");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said("cat|owl"),
              HasSubstr("has labels as `cat|owl`: where `|` stands between two of them, add label_delim=\"|\""));
  EXPECT_THAT(said("cat, owl"), HasSubstr("has labels as `cat,`"));
  EXPECT_EQ(said("cat owl"), "");
  EXPECT_EQ(said("cat|owl", ", label_delim=\"|\""), "");
  EXPECT_EQ(said("red,green blue", ", label_delim=\" \""), "") << "as it is meant";
}

TEST(MultiLabel, CsvTakesColumnsThatSayYes) {
  const TempDir dir;
  write_images(dir);
  write_text(dir / "a.csv", "image,owl,cat,dog\n0.png,1,1.0,0\n1.png,-1,,False\n2.png,0,0,True\n3.png,1,1,1\n");
  const auto source = make_source("csv(" + (dir / "a.csv") + ", labels=[cat, dog, owl])");
  EXPECT_EQ(source->class_names(), kTags);  // in the order of the call
  EXPECT_EQ(lists_of(*source), kLists);
  write_text(dir / "b.csv", "image,owl,cat\n0.png,1,maybe\n1.png,0,1\n");
  const auto odd = make_source("csv(" + (dir / "b.csv") + ", labels=[cat, owl])");
  EXPECT_THAT(reason(*odd, 0), HasSubstr("its column `cat` has `maybe`, which is neither 1 nor 0"));
  EXPECT_THAT(odd->class_sizes(), Optional(ElementsAre(1, 0)));
}

TEST(MultiLabel, JsonlTakesArrays) {
  const TempDir dir;
  write_images(dir);
  write_text(dir / "a.jsonl",
             "{\"image\": \"0.png\", \"tags\": [\"owl\", \"cat\", \"owl\"]}\n{\"image\": \"1.png\", \"tags\": []}\n"
             "{\"image\": \"2.png\", \"tags\": \"dog\"}\n{\"image\": \"3.png\", \"tags\": [\"cat\", \"dog\", \"owl\"]}\n");
  const auto source = make_source("jsonl(" + (dir / "a.jsonl") + ", labels=tags)");
  EXPECT_EQ(source->class_names(), kTags);
  EXPECT_EQ(lists_of(*source), kLists);
  write_text(dir / "b.jsonl",
             "{\"image\": \"0.png\", \"ids\": [5, 1]}\n{\"image\": \"1.png\", \"ids\": null}\n{\"image\": \"2.png\"}\n");
  EXPECT_EQ(lists_of(*make_source("jsonl(" + (dir / "b.jsonl") + ", labels=ids, label_offset=-1)")), (Lists{{0, 4}, {}, {}}));
  write_text(dir / "c.jsonl", "{\"image\": \"0.png\", \"ids\": [5, \"a\"]}\n{\"image\": \"1.png\", \"ids\": [7]}\n");
  const auto odd = make_source("jsonl(" + (dir / "c.jsonl") + ", labels=ids, classes=6)");
  EXPECT_THAT(reason(*odd, 0), HasSubstr("its labels `ids` are no list of whole numbers or of texts"));
  EXPECT_THAT(reason(*odd, 1), HasSubstr("its label 7 is not one of 6 classes"));
  EXPECT_THAT(odd->label_lists(), Optional(Lists{{}, {}}));
}

TEST(MultiLabel, MistakesAreNamed) {
  const TempDir dir;
  const std::string path = tag_table(dir);
  const auto mistake = [&](const std::string& arguments) {
    return open_error("csv(" + path + ", " + arguments + ")", Exit::kUsage);
  };
  EXPECT_THAT(mistake("label=tags, labels=tags"), HasSubstr("both label= and labels="));
  EXPECT_THAT(mistake("label=tags, label_delim=\"|\""), HasSubstr("name it with labels=COLUMN"));
  EXPECT_THAT(mistake("labels=[cat], label_delim=\"|\""), HasSubstr("label_delim= is for one column"));
  EXPECT_THAT(open_error("csv(" + path + ", labels=tag)"), AllOf(HasSubstr("no column `tag`"), HasSubstr("tags")));
  EXPECT_THAT(open_error("csv(" + path + ", labels=[tags, birds])"), HasSubstr("no column `birds`"));
  write_text(dir / "none.csv", "image,tags\n0.png,\n");
  EXPECT_THAT(open_error("csv(" + (dir / "none.csv") + ", labels=tags)"), HasSubstr("no sample has a label"));
  write_text(dir / "a.jsonl", "{\"image\": \"0.png\", \"label\": [\"owl\", \"cat\"]}\n");
  const std::string lines = "jsonl(" + (dir / "a.jsonl");
  EXPECT_THAT(open_error(lines + ", labels=[a, b])", Exit::kUsage), HasSubstr("names 2 fields"));
  // A list where one label is wanted.
  EXPECT_THAT(reason(*make_source(lines + ", classes=3)"), 0), HasSubstr("`label` is a list; labels=label takes several"));
}

TEST(MultiLabel, AnIndexKeepsTheLists) {
  const testing::TempCache cache;
  const TempDir dir;
  const std::string call = "csv(" + tag_table(dir) + ", labels=tags)";
  testing::make_old(dir / "tags.csv");
  EXPECT_EQ(make_source(call)->facts().index, IndexOrigin::kBuilt);
  const auto again = make_source(call);
  EXPECT_EQ(again->facts().index, IndexOrigin::kSidecar);
  EXPECT_EQ(again->class_names(), kTags);
  EXPECT_EQ(lists_of(*again), kLists);
  // With one label an image each text is a class, and the index another.
  const auto single = make_source("csv(" + (dir / "tags.csv") + ", label=tags)");
  EXPECT_EQ(single->facts().index, IndexOrigin::kBuilt);
  EXPECT_THAT(single->labels(), Optional(ElementsAre(2, -1, 1, 0)));
}

TEST(MultiLabel, OfPartsAndOtherClasses) {
  const TempDir dir;
  const std::string call = "csv(" + tag_table(dir) + ", labels=tags)";
  const auto train = make_source("part(" + call + ", train, fold=0/2)"),
             valid = make_source("part(" + call + ", valid, fold=0/2)");
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(valid->size(), 2);
  Lists both = lists_of(*train);
  for (const auto& list : lists_of(*valid)) both.push_back(list);
  EXPECT_THAT(both, ::testing::UnorderedElementsAreArray(kLists));
  const auto moved = relabelled(make_source(call), {"owl", "fox", "dog", "cat"});
  ASSERT_TRUE(moved);
  EXPECT_EQ(lists_of(*moved), (Lists{{0, 3}, {}, {2}, {0, 2, 3}}));
}

TEST(MultiLabel, CachesKeepThem) {
  const TempDir dir, kept;
  const std::string path = tag_table(dir);
  for (int i = 0; i < 4; ++i) testing::make_old(dir / (std::to_string(i) + ".png"));
  testing::make_old(path);
  const auto source = make_source("csv(" + path + ", labels=tags)");
  const auto ram = cache_in_ram(source, std::make_shared<ByteBudget>(int64_t{1} << 20));
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(lists_of(*ram), kLists);
  for (int run = 0; run < 2; ++run) {
    const auto budget = std::make_shared<ByteBudget>(int64_t{1} << 20);
    const auto disk = cache_on_disk(source, kept.path(), budget);
    EXPECT_EQ(budget->used() > 0, run > 0);
    for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(lists_of(*disk), kLists);
    EXPECT_GT(budget->used(), 0);
  }
}

std::vector<uint8_t> hot_row(const std::vector<int32_t>& labels) {
  std::vector<uint8_t> row(3);
  for (const int32_t label : labels) row[static_cast<size_t>(label)] = 1;
  return row;
}

TEST(MultiLabel, BatchesHoldMultiHotRows) {
  const TempDir dir;
  const auto source = make_source("csv(" + tag_table(dir) + ", labels=tags)");
  const auto pp = std::make_shared<const Pp>("decode | resize(8)", PpUse::kEval);
  EvalLoader loader({source, pp, {}}, {.batch = 3});
  for (int64_t begin = 0; begin < 6; begin += 3) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->multi_hot_classes(), 3);
    for (int64_t row = 0; row < 3; ++row) {
      const auto i = static_cast<size_t>(begin + row);
      const std::vector<uint8_t> got(batch->multi_hot() + 3 * row, batch->multi_hot() + 3 * row + 3);
      EXPECT_EQ(got, hot_row(i < 4 ? kLists[i] : std::vector<int32_t>{})) << i;  // rows used before are cleared
    }
  }
  TrainLoader train({{source, std::make_shared<const Pp>("decode | resize(8)", PpUse::kTrain), {}}}, {.batch = 2, .seed = 3});
  for (int step = 0; step < 6; ++step) {
    const Batch batch = train.next();
    for (int64_t row = 0; row < 2; ++row) {
      const std::vector<uint8_t> got(batch.multi_hot() + 3 * row, batch.multi_hot() + 3 * row + 3);
      EXPECT_EQ(got, hot_row(kLists[static_cast<size_t>(batch.samples()[row])]));
    }
  }
}

TEST(MultiLabel, CheckCountsEachClass) {
  const TempDir dir;
  const CheckReport report = check_source(*make_source("csv(" + tag_table(dir) + ", labels=tags)"));
  std::vector<int64_t> counts;
  for (const ClassCount& one : report.classes) counts.push_back(one.samples);
  EXPECT_THAT(counts, ElementsAre(2, 2, 2));
  EXPECT_EQ(report.unlabelled, 1);
}

TEST(MultiLabel, ConvertedSetsHaveThem) {
  const TempDir dir;
  const std::string call = "csv(" + tag_table(dir) + ", labels=tags)";
  for (const ConvertFormat format : {ConvertFormat::kTfrecord, ConvertFormat::kArrayRecord, ConvertFormat::kTar}) {
    SCOPED_TRACE(convert_format_name(format));
    const std::string name = convert_format_name(format), out = dir / name;
    convert({{"train", call, make_source(call), {}}}, {.format = format, .out = out});
    const std::string written = format == ConvertFormat::kTar
                                    ? "wds(" + out + "/*.tar, labels=json.labels)"
                                    : "tfds(" + name + ", data_dir=" + dir.path().string() + ", labels=labels)";
    const auto source = make_source(written);
    EXPECT_EQ(source->class_names(), kTags);
    EXPECT_EQ(lists_of(*source), kLists);
    if (format == ConvertFormat::kTar) continue;
    const std::string shards = fmt::format("{}({}/1.0.0/*-of-*, labels=labels)", name, out);
    EXPECT_EQ(lists_of(*make_source(shards)), kLists);
    EXPECT_THAT(open_error("tfds(" + name + ", data_dir=" + dir.path().string() + ", label=labels)"),
                AllOf(HasSubstr("`labels` is a Sequence of ClassLabel"), HasSubstr("labels=labels takes several")));
    EXPECT_THAT(reason(*make_source(fmt::format("{}({}/1.0.0/*-of-*, label=labels, classes=3)", name, out)), 0),
                HasSubstr("it has 2 labels `labels`, not one; labels=labels takes several"));
  }
}

class MultiLabelParquet : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      parquet_available();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static void parquet_available() { make_source("parquet(" + kFormats + "/parquet/lists.parquet, label=none)"); }
};

TEST_F(MultiLabelParquet, ListColumns) {
  const std::string arrow = kFormats + "/parquet/arrow_lists.parquet";
  const auto numbers = make_source("parquet(" + arrow + ", labels=numbers)");
  Lists wanted;
  for (const auto& sample : testing::reference_samples()) wanted.push_back({sample.label});
  EXPECT_EQ(numbers->class_names().size(), 3u);
  EXPECT_EQ(lists_of(*numbers), wanted);
  // Lists of texts, some of them empty.
  const auto captions = make_source("parquet(" + kFormats + "/parquet/lists.parquet, labels=captions)");
  const Lists found = lists_of(*captions);
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<std::string> names;
    for (const int32_t label : found[i]) names.push_back(captions->class_names()[static_cast<size_t>(label)]);
    EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(testing::reference_samples()[i].captions));
  }
}

}  // namespace
}  // namespace tessera::data
