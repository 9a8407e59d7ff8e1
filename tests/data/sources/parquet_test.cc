// parquet(…): files of the library datasets. They need tessera_parquet.so, which ./dev test builds.

#include "data/formats/parquet/parquet.h"

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "base/system/process.h"
#include "data/format_testing.h"
#include "data/formats/parquet/parquet_footer.h"
#include "store/file.h"
#include "support/no_more_files.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_captions;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using testing::open_error;
using testing::range;

const std::string kFiles = kFormats + "/parquet/train-*.parquet";

class ParquetSource : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      parquet_api();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(ParquetSource, ReadsTheLibrarysFiles) {
  const auto source = make_source("parquet(" + kFiles + ", text=caption)");
  EXPECT_EQ(source->class_names(), testing::kClasses);
  EXPECT_EQ(source->id(8), "train-00001-of-00002.parquet#1");
  EXPECT_THAT(source->stretches(), ElementsAre(0, 5, 7));
  expect_samples(*source, range(0, 12));
  EXPECT_EQ(make_source("parquet(" + kFiles + ", classes=9)")->class_names().size(), 9u);
  expect_samples(*make_source("parquet(" + kFiles + ", label=none, image=image)"), range(0, 12));
  // A text column as labels: the twelve captions.
  EXPECT_EQ(make_source("parquet(" + kFiles + ", label=caption)")->class_names().size(), 12u);
}

// FileMetaData of Thrift's compact form with a schema of groups in one another.
std::string footer_of_groups(size_t depth) {
  std::string schema;
  // name "a", num_children 1
  for (size_t i = 0; i < depth; ++i) schema += std::string("\x48\x01\x61\x15\x02\x00", 6);
  schema += std::string("\x15\x02\x38\x01\x61\x00", 6);  // type INT32, name "a"
  std::string count;
  protozero::add_varint_to_buffer(&count, depth + 1);
  // version 1; the schema; no rows; no row groups
  return std::string("\x15\x02\x19\xfc", 4) + count + schema + std::string("\x16\x00\x19\x0c\x00", 5);
}

TEST(ParquetFooter, DepthIsThatOfTheSchema) {
  for (const size_t depth : {0, 1, 3, 64, 100000}) EXPECT_EQ(parquet_schema_depth(footer_of_groups(depth)), depth);
  const std::string whole = footer_of_groups(3);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parquet_schema_depth(whole.substr(0, length))) << length;
  // Lists in lists in a field that nobody knows.
  EXPECT_FALSE(parquet_schema_depth(std::string("\x99", 1) + std::string(100'000, '\x19')));
}

TEST_F(ParquetSource, SchemasNestNoDeeperThanStacksReach) {
  const TempDir dir;
  const std::string footer = footer_of_groups(200'000);
  const auto length = static_cast<uint32_t>(footer.size());
  const std::string file = "PAR1" + footer + std::string(reinterpret_cast<const char*>(&length), 4) + "PAR1";
  image::testing::write_file(dir / "a.parquet", {file.begin(), file.end()});
  EXPECT_THAT(open_error("parquet(" + (dir / "a.parquet") + ")"), HasSubstr("its schema nests more than 64 levels deep"));
}

TEST_F(ParquetSource, ListsAreTexts) {
  const std::string lists = kFormats + "/parquet/lists.parquet", arrow = kFormats + "/parquet/arrow_lists.parquet";
  const auto source = make_source("parquet(" + lists + ", text=[captions, sentences.raw, answers.text])");
  EXPECT_THAT(source->text_fields(), ElementsAre("captions", "sentences.raw", "answers.text"));
  for (size_t field = 0; field < 3; ++field) expect_captions(*source, field);
  expect_captions(*make_source("parquet(" + arrow + ", text=large)"), 0);
  Sample sample;
  const auto odd = make_source("parquet(" + arrow + ", text=[pair, odd])");
  ASSERT_FALSE(odd->read(7, sample));
  EXPECT_THAT(sample.texts[0], ElementsAre("picture 7, näher", "07.jpg"));
  EXPECT_THAT(sample.texts[1], ElementsAre("one 7", "zwei 7", "três 7"));
  EXPECT_EQ(odd->read(10, sample), "it has no text `odd`");
  EXPECT_EQ(odd->read(11, sample), "one of its texts `odd` is null");
  EXPECT_THAT(open_error("parquet(" + arrow + ", label=large)"), HasSubstr("labels=large takes several labels"));
  for (const char* column : {"nested", "map.key", "numbers", "image, labels=nested"}) {
    EXPECT_THAT(open_error("parquet(" + arrow + ", text=" + column + ")"), HasSubstr("is of a type that cannot be used so"));
  }
}

// pandas' categories, and texts that Arrow keeps as dictionaries.
TEST_F(ParquetSource, DictionariesAreTheirValues) {
  const std::string file = kFormats + "/parquet/dictionaries.parquet";
  const auto source = make_source("parquet(" + file + ", text=[caption, captions])");
  EXPECT_EQ(source->class_names(), testing::kClasses);  // those that occur, by name
  expect_samples(*source, range(0, 12));
  expect_captions(*source, 1);
  EXPECT_THAT(source->class_sizes(), ::testing::Optional(ElementsAre(4, 4, 4)));
  const auto numbered = make_source("parquet(" + file + ", label=number)");
  EXPECT_THAT(numbered->class_names(), ElementsAre("0", "1", "2"));
  expect_samples(*numbered, range(0, 12));
  const auto gap = make_source("parquet(" + file + ", label=gap)");
  Sample sample;
  EXPECT_EQ(gap->read(5, sample), "it has no label `gap`");
  EXPECT_FALSE(gap->read(6, sample));
  EXPECT_THAT(gap->class_sizes(), ::testing::Optional(ElementsAre(4, 3, 4)));
}

TEST_F(ParquetSource, CountsClasses) {
  EXPECT_THAT(make_source("parquet(" + kFiles + ")")->class_sizes(), ::testing::Optional(ElementsAre(4, 4, 4)));
  EXPECT_EQ(make_source("parquet(" + kFiles + ", label=none)")->class_sizes(), std::nullopt);
}

TEST_F(ParquetSource, WrittenFilesReadBack) {
  const TempDir dir;
  const std::vector<std::string> names = {"a", "bé", "", "d", "e", "f"};
  std::vector<TesseraParquetText> texts;
  for (const std::string& name : names) texts.push_back({name.data(), static_cast<int64_t>(name.size())});
  texts[3] = {};
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  write_parquet(dir / "x.parquet", {{"one", 1, {texts.begin(), texts.begin() + 3}}, {"two", 2, texts}}, 3);
  const ParquetFile file(dir / "x.parquet");
  EXPECT_THAT(file.columns(), ElementsAre("one", "two"));
  EXPECT_EQ(file.kind("two"), TESSERA_PARQUET_BYTES_LIST);
  const auto group = file.read_group(0, {"one", "two"});
  const auto text = [&](size_t column, int64_t row, int64_t item) {
    const TesseraParquetValue value = group->value(column, row, item);
    return value.is_null ? "null" : std::string(value.data, static_cast<size_t>(value.size));
  };
  for (int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(text(0, row, 0), names[static_cast<size_t>(row)]);
    EXPECT_EQ(group->count(1, row), 2);
    for (int64_t item = 0; item < 2; ++item) {
      const auto at = static_cast<size_t>(2 * row + item);
      EXPECT_EQ(text(1, row, item), at == 3 ? "null" : names[at]);
    }
  }
  write_parquet(dir / "y.parquet", {{"x", 2, {}, numbers.data() + 1, 3}}, 2);
  EXPECT_EQ(ParquetFile(dir / "y.parquet").kind("x"),
            TESSERA_PARQUET_OTHER);  // floats; what they are, pyarrow reads in tests/cli
  EXPECT_THROW(write_parquet(dir / "none/x.parquet", {{"x", 2, {}, numbers.data(), 2}}, 3), Error);
}

TEST_F(ParquetSource, MistakesAreExplained) {
  EXPECT_THAT(open_error("parquet(" + kFormats + "/parquet/train-00000-of-00002.parquet)"), HasSubstr("1 of the 2 shards"));
  EXPECT_THAT(open_error("parquet(" + kFiles + ", image=imag)"),
              AllOf(HasSubstr("no column `imag`"), HasSubstr("image.bytes, image.path, label, caption")));
  EXPECT_THAT(open_error("parquet(" + kFiles + ", image=label)"), HasSubstr("the column `label` is of a type"));
  EXPECT_THAT(open_error("parquet(" + kFiles + ", text=label)"), HasSubstr("the column `label` is of a type"));
  EXPECT_THAT(open_error("parquet(" + kFiles + ", label=lable)"), HasSubstr("no column `lable`"));
  EXPECT_THAT(open_error("parquet(" + kFormats + "/tfrecord/gzip.tfrecord)"), HasSubstr("cannot be read as Parquet"));
}

TEST_F(ParquetSource, DamageIsAReason) {
  const TempDir dir;
  std::vector<uint8_t> bytes = image::testing::read_file(kFormats + "/parquet/train-00001-of-00002.parquet");
  image::testing::write_file(dir / "cut.parquet", {bytes.begin(), bytes.begin() + 3000});
  EXPECT_THAT(open_error("parquet(" + (dir / "cut.parquet") + ")"),
              AllOf(HasSubstr(dir / "cut.parquet"), HasSubstr("damaged")));
  // The first page's header.
  for (size_t i = 4; i < 24; ++i) bytes[i] = 0xff;
  image::testing::write_file(dir / "bad.parquet", bytes);
  const auto source = make_source("parquet(" + (dir / "bad.parquet") + ")");
  Sample sample;
  EXPECT_THAT(*source->read(0, sample), AllOf(HasSubstr(dir / "bad.parquet"), HasSubstr("row group 0 cannot be read")));
}

// 1.5 GB of zeros in 3 KB: the page is refused by the size that it claims.
TEST_F(ParquetSource, WhatUnpacksToFarMoreIsRefused) {
  const auto source = make_source("parquet(" + kFormats + "/parquet/bomb.parquet)");
  ASSERT_EQ(source->size(), 2);
  const int64_t before = peak_resident_bytes();
  Sample sample;
  EXPECT_THAT(*source->read(0, sample), AllOf(HasSubstr("bomb.parquet"), HasSubstr("row group 0 cannot be read")));
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
}

#if !defined(__SANITIZE_ADDRESS__)  // see no_more_files.h
TEST_F(ParquetSource, NoMoreOpenFilesIsNoDamage) {
  const auto source = make_source("parquet(" + kFiles + ")");
  const tessera::testing::NoMoreFiles none;
  Sample sample;
  EXPECT_THROW((void)source->read(8, sample), store::OutOfFiles);
}
#endif

TEST(Parquet, NamesOfClassesAreFound) {
  EXPECT_THAT(huggingface_classes(R"({"info": {"features": {"l": {"names": ["a", "b"], "_type": "ClassLabel"}}}})", "l"),
              ElementsAre("a", "b"));
  for (const char* other : {"", "[]", "{}", R"({"info": {"features": {"l": {"names": 3}}}})", R"({"info": 3})"})
    EXPECT_TRUE(huggingface_classes(other, "l").empty());
}

TEST(Parquet, MissingModuleIsExplained) {
  setenv("TESSERA_PARQUET", "/nowhere/tessera_parquet.so", 1);
  const std::string message = open_error("parquet(" + kFiles + ")");
  unsetenv("TESSERA_PARQUET");
  // In a process that loaded it before, it stays.
  EXPECT_THAT(message, ::testing::AnyOf("accepted", AllOf(HasSubstr("cannot load"), HasSubstr("./dev parquet-deps"))));
}

}  // namespace
}  // namespace tessera::data
