// csv(…): tables whose rows name image files.

#include "data/formats/csv.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/format_testing.h"
#include "data/formats/bytes/bytes_file.h"

namespace tessera::data {
namespace {

using image::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::expect_samples;
using ::testing::HasSubstr;
using testing::kFormats;
using ::testing::Not;
using testing::open_error;
using ::testing::Optional;
using testing::range;

using Rows = std::vector<std::vector<std::string>>;

void write_text(const std::string& path, const std::string& text) {
  image::testing::write_file(path, {text.begin(), text.end()});
}

Rows rows_of(const std::string& text, char separator = ',') {
  const BytesFile file(text);
  Rows rows;
  for (const Extent& record : scan_csv("test", file, separator)) {
    rows.push_back(parse_csv_record(read_extent(file, record), separator).value_or(std::vector<std::string>{"no end"}));
  }
  return rows;
}

std::string reason(const Source& source, int64_t index) {
  Sample sample;
  return source.read(index, sample).value_or("read");
}

// The reference samples.
std::string table(const std::string& separator) {
  const auto row = [&](const std::string& image, const std::string& name, const std::string& label,
                       const std::string& caption) {
    return fmt::format("{1}{0}{2}{0}{3}{0}{4}\r\n", separator, image, name, label, caption);
  };
  std::string text = "\xef\xbb\xbf" + row("image", "class", "label", "caption");
  int i = 0;
  for (const auto& sample : testing::reference_samples()) {
    text += row(fmt::format("{:02}.{}", i, i % 3 == 0 ? "png" : "jpg"), testing::kClasses[static_cast<size_t>(sample.label)],
                std::to_string(sample.label), '"' + sample.caption + '"');
    ++i;
  }
  return text;
}

TEST(Csv, ReadsWhatPythonReads) {
  for (const auto& table :
       nlohmann::json::parse(image::testing::read_file(tessera::testing::source_path("tests/references/csv_tables.json")))) {
    const auto text = table["text"].get<std::string>();
    EXPECT_EQ(rows_of(text, table["separator"].get<std::string>()[0]), table["rows"].get<Rows>()) << text;
  }
}

TEST(Csv, DropsSpacesOutsideQuotesAndBlankLines) {
  EXPECT_EQ(rows_of("\xef\xbb\xbf a , b b ,\" c \" \r\n \r\n\nd\t,,\"\"\n1, 2"),
            (Rows{{"a", "b b", " c "}, {"d", "", ""}, {"1", "2"}}));
  EXPECT_EQ(rows_of("a b  c\n", ' '), (Rows{{"a", "b", "", "c"}}));
  EXPECT_EQ(rows_of("5\" disk,\"a\"b\n"), (Rows{{"5\" disk", "ab"}}));
  EXPECT_EQ(rows_of("a,\"b\nc,d\n"), (Rows{{"no end"}}));
  EXPECT_TRUE(rows_of("").empty());
  const std::string utf16(
      "\xff\xfe"
      "a\0",
      4);
  EXPECT_THROW(scan_csv("test", BytesFile(utf16), ','), Error);
}

TEST(Csv, ZerosAreNoText) {
  const std::string text = "image,label\n" + std::string(1'500'000, 'x') + std::string("\0\n", 2);
  try {
    scan_csv("table", BytesFile(text), ',');
    ADD_FAILURE() << "it is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "`table` is no text: byte 1500012 is 0");
  }
}

TEST(Csv, RecordsCrossChunks) {
  const std::string large(1'500'000, 'x');
  EXPECT_EQ(rows_of("a,\"" + large + "\n" + large + "\"\nb,c\n"), (Rows{{"a", large + "\n" + large}, {"b", "c"}}));
}

TEST(CsvSource, ReadsRows) {
  const TempDir dir;
  write_text(dir / "a.csv", table(","));
  const std::string rooted = ", root=" + kFormats + "/images";
  const auto source = make_source("csv(" + (dir / "a.csv") + ", text=caption" + rooted + ")");
  expect_samples(*source, range(0, 12));
  EXPECT_EQ(source->id(1), "01.jpg");
  const auto named = make_source("csv(" + (dir / "a.csv") + ", label=class" + rooted + ")");
  EXPECT_EQ(named->class_names(), testing::kClasses);
  expect_samples(*named, range(0, 12));
  write_text(dir / "b.tsv", table("\t"));
  expect_samples(*make_source("csv(" + (dir / "b.tsv") + rooted + ")"), range(0, 12));
  write_text(dir / "c.csv", table(";"));
  expect_samples(*make_source("csv(" + (dir / "c.csv") + ", sep=\";\"" + rooted + ")"), range(0, 12));
  EXPECT_TRUE(make_source("csv(" + (dir / "a.csv") + ", label=none" + rooted + ")")->class_names().empty());
}

TEST(CsvSource, NeedsNoHeader) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  write_text(dir / "val.txt", "x.png 3\nx.png 1\n");
  const auto source = make_source("csv(" + (dir / "val.txt") + ", sep=\" \", header=false)");
  EXPECT_THAT(source->labels(), Optional(ElementsAre(3, 1)));
  EXPECT_EQ(source->class_names().size(), 4u);
}

TEST(CsvSource, TakesTheRowsOfASplit) {
  const TempDir dir;
  for (const std::string name : {"1", "2", "3", "4"}) write_text(dir / (name + ".png"), name);
  write_text(dir / "a.csv", "id,breed,split,fold\n1,owl,train,0\n2,cat,valid,1\n3,cat,train,1\nbroken\n4,owl,,0\n");
  const auto open = [&](const std::string& arguments) {
    return make_source("csv(" + (dir / "a.csv") + ", image=id, label=breed, suffix=.png, " + arguments + ")");
  };
  const auto train = open("split=train");
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->id(0), "1");
  EXPECT_EQ(train->id(1), "3");
  EXPECT_THAT(reason(*train, 2), HasSubstr("no row: it has 1 field, and the first row 4"));
  EXPECT_THAT(train->labels(), Optional(ElementsAre(1, 0, -1)));
  EXPECT_THAT(open("split=\"fold=1\"")->class_names(), ElementsAre("cat"));
  EXPECT_EQ(open("split=\"fold=0\"")->size(), 3);
  EXPECT_THAT(open_error("csv(" + (dir / "a.csv") + ", image=id, split=test)"),
              AllOf(HasSubstr("no row of"), HasSubstr("has `test` in its column `split`"),
                    HasSubstr("the column has ``, `train`, `valid`")));
  EXPECT_THAT(open_error("csv(" + (dir / "a.csv") + ", image=id, split=\"part=1\")"), HasSubstr("no column `part`"));
}

TEST(CsvSource, LabelsAreNumbersOrNames) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  const auto classes = [&](const std::string& rows) {
    write_text(dir / "a.csv", "image,label\n" + rows);
    return make_source("csv(" + (dir / "a.csv") + ")")->class_names();
  };
  EXPECT_THAT(classes("x.png,2\nx.png,0\n"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(classes("x.png,02\nx.png,01\n"), ElementsAre("01", "02"));
  EXPECT_THAT(classes("x.png,b\nx.png,\nx.png,a b\n"), ElementsAre("a b", "b"));
  write_text(dir / "a.csv", "image,label\nx.png,b\nx.png,\n");
  const auto source = make_source("csv(" + (dir / "a.csv") + ")");
  EXPECT_EQ(reason(*source, 0), "read");
  EXPECT_EQ(reason(*source, 1), "it has no label `label`");
  write_text(dir / "a.csv", "image,label\nx.png,3\nx.png,cat\n");
  EXPECT_THAT(open_error("csv(" + (dir / "a.csv") + ")"), HasSubstr("some labels are numbers"));
}

TEST(CsvSource, SeveralFilesMayHaveTheirColumnsInAnotherOrder) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  write_text(dir / "1.csv", "image,label\nx.png,a\n");
  write_text(dir / "2.csv", "label,image\nb,x.png\n");
  EXPECT_THAT(make_source("csv(" + (dir / "*.csv") + ")")->labels(), Optional(ElementsAre(0, 1)));
  write_text(dir / "3.csv", "class,image\nb,x.png\n");
  EXPECT_THAT(open_error("csv(" + (dir / "*.csv") + ")"), AllOf(HasSubstr("3.csv` has no column `label`")));
}

// What is said where the source is opened.
std::string said_of(const std::string& source) {
  ::testing::internal::CaptureStderr();
  make_source(source);
  return ::testing::internal::GetCapturedStderr();
}

TEST(CsvSource, AFirstImageThatIsNotThereIsSaid) {
  const TempDir dir;
  const auto said = [&](const std::string& more) { return said_of("csv(" + (dir / "a.csv") + more + ")"); };
  write_text(dir / "a.csv", "image,label\na,cat\nb,dog\n");
  EXPECT_THAT(said(""),
              AllOf(HasSubstr("the first image of"), HasSubstr("root=FOLDER"), HasSubstr("suffix=.jpg adds an ending")));
  write_text(dir / "a.png", "x");
  EXPECT_THAT(said(""), HasSubstr("suffix=.png adds the ending that it lacks"));
  EXPECT_EQ(said(", suffix=.png"), "");
  std::filesystem::create_directory(dir / "cats");
  write_text(dir / "cats/a.png", "x");
  write_text(dir / "a.csv", "image,label\ncats\\a.png,cat\n");
  EXPECT_THAT(said(""), HasSubstr("write / in place of \\ between"));
  write_text(dir / "a.csv", "image,label\nhttps://photos.org/a.png,cat\n");
  EXPECT_THAT(said(""), HasSubstr("addresses in a table are not read; root=ADDRESS"));
  // Paths that start from the working directory, and not from the table's.
  std::filesystem::create_directory(dir / "tables");
  write_text(dir / "tables/a.csv", "image,label\ncats/a.png,cat\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  EXPECT_THAT(said_of("csv(tables/a.csv)"), HasSubstr("root=. where paths start from the working directory"));
  std::filesystem::current_path(before);
}

TEST(CsvSource, WhyNoRowCanBeReadIsSaid) {
  const TempDir dir;
  write_text(dir / "a.csv", "image,label\nx.png\ny.png\n");
  EXPECT_THAT(said_of("csv(" + (dir / "a.csv") + ")"), AllOf(HasSubstr("no row of"), HasSubstr("has a label that can be read"),
                                                             HasSubstr("it has 1 field, and the first row 2")));
  write_text(dir / "b.csv", "# made by hand\nimage,label\nx.png,cat\n");
  EXPECT_THAT(open_error("csv(" + (dir / "b.csv") + ")"), HasSubstr("take out the lines before the row"));
}

TEST(CsvSource, LabelsThatBeginAtOneAreNoted) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  write_text(dir / "a.csv", "image,label\nx.png,1\nx.png,2\n");
  const auto said = [&](const std::string& more) { return said_of("csv(" + (dir / "a.csv") + more + ")"); };
  EXPECT_THAT(said(""),
              HasSubstr("labels run from 1 to 2, so class 0 has no images; where the first class is 1, say label_offset=-1"));
  EXPECT_EQ(said(", label_offset=-1"), "");
  EXPECT_EQ(said(", classes=3"), "");
}

TEST(CsvSource, OtherEncodingsThanUtf8AreSaid) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  const auto said = [&](const std::string& rows) {
    write_text(dir / "a.csv", "image,label\n" + rows);
    return said_of("csv(" + (dir / "a.csv") + ")");
  };
  EXPECT_THAT(said("x.png,K\xe4uzchen\nx.png,owl\n"),
              AllOf(HasSubstr("has `K\\xe4uzchen`, which is no UTF-8"), HasSubstr("iconv")));
  EXPECT_THAT(said("x.png,owl\nK\xe4uzchen.png,owl\n"), HasSubstr("has `K\\xe4uzchen.png`, which is no UTF-8"));
  // Once, and not also as a file that is missing.
  EXPECT_THAT(said("K\xe4uz.png,K\xe4uz\n"), AllOf(HasSubstr("is no UTF-8"), Not(HasSubstr("the first image of"))));
  EXPECT_EQ(said("x.png,K\xc3\xa4uzchen\n"), "");
}

TEST(CsvSource, WholeNumbersWithAPointAreNoted) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  const auto said = [&](const std::string& rows, const std::string& more = "") {
    write_text(dir / "a.csv", "image,label\n" + rows);
    return said_of("csv(" + (dir / "a.csv") + more + ")");
  };
  EXPECT_THAT(said("x.png,0.0\nx.png,2.0\nx.png,10.0\n"),
              AllOf(HasSubstr("has labels as `0.0`, which are names, sorted as text"), HasSubstr("write 0, 1, …")));
  EXPECT_EQ(said("x.png,0.5\nx.png,1.0\n"), "");
  EXPECT_EQ(said("x.png,v1.0\n"), "");
  write_text(dir / "classes.txt", "0.0\n1.0\n");
  EXPECT_EQ(said("x.png,1.0\n", ", classes=" + (dir / "classes.txt")), "");
}

// Rows must not be lost with no more than a warning.
TEST(CsvSource, AQuoteWithoutAnEndIsNoRow) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  const std::string call = "csv(" + (dir / "a.csv") + ")";
  write_text(dir / "a.csv", "image,label\nx.png,a\n\"x.png,a\nx.png,b\nx.png,c\n");
  EXPECT_THAT(open_error(call), AllOf(HasSubstr("a quote in line 3 of"), HasSubstr("one row of all 3 lines from there on"),
                                      HasSubstr("close the quote")));
  write_text(dir / "a.csv", "image,label,split\nx.png,a,train\n\"x.png,a,valid\nx.png,b,train\n");
  EXPECT_THAT(open_error("csv(" + (dir / "a.csv") + ", split=train)"), HasSubstr("a quote in line 3 of"));
  // Only the last row is lost here, and named where rows are read.
  for (const char* end : {"", "\n", "\r\n\r\n"}) {
    write_text(dir / "a.csv", std::string("image,label\nx.png,a\n\"x.png,b") + end);
    EXPECT_THAT(reason(*make_source(call), 1), HasSubstr("a quote has no end"));
  }
  // Another quote may end it.
  write_text(dir / "a.csv", "image,label\n\"x.png,a\nx.png,b\nx.png,\"b\nx.png,c\n");
  EXPECT_THAT(reason(*make_source(call), 0), HasSubstr("it has 3 lines, as if a quote lacked its end"));
}

TEST(CsvSource, RowsHaveAMegabyteAtMost) {
  const TempDir dir;
  const std::string call = "csv(" + (dir / "a.csv") + ")", much = std::string(1 << 20, 'x');
  write_text(dir / "a.csv", "image,label\nx.png,a\nx.png," + much + "\nx.png,\"" + much + "\nx.png,\"\n");
  const auto source = make_source(call);
  EXPECT_THAT(source->class_names(), ElementsAre("a"));
  EXPECT_THAT(reason(*source, 1), HasSubstr("it has 1.00 MiB, and rows of up to 1.00 MiB are read"));
  EXPECT_THAT(reason(*source, 2), HasSubstr("rows of up to 1.00 MiB are read; it has 2 lines, as if a quote lacked its end"));
  write_text(dir / "a.csv", "image," + much + "\nx.png,a\n");
  EXPECT_THAT(open_error(call), AllOf(HasSubstr("the first row of"), HasSubstr("is too long: it has 1.00 MiB")));
}

TEST(CsvSource, MistakesAreExplained) {
  const TempDir dir;
  const std::string call = "csv(" + (dir / "a.csv");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("No such file"));
  write_text(dir / "a.csv", "\n");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("is empty"));
  write_text(dir / "a.csv", "image,label\n");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("has no row behind its first"));
  write_text(dir / "a.csv", "image,label,split\n");
  EXPECT_THAT(open_error(call + ", split=train)"), HasSubstr("has no row that can be read"));
  write_text(dir / "a.csv", "image,label\rx.png,a\rx.png,b\r");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("has line ends of old Macs (CR)"));
  write_text(dir / "a.csv", "x.png,\"one line\rand another\"\ny.png,b\n");
  EXPECT_EQ(make_source(call + ", header=false)")->size(), 2) << "its line ends are others";
  write_text(dir / "a.csv", "x.PNG,a\ny.png,b\n");
  EXPECT_THAT(open_error(call + ")"),
              AllOf(HasSubstr("no column `image`"), HasSubstr("`x.PNG`, names no columns: header=false")));
  write_text(dir / "a.csv", "filename;species\na.jpg;owl\n");
  EXPECT_THAT(open_error(call + ")"), AllOf(HasSubstr("has one column, `filename;species`"), HasSubstr("sep=\";\"")));
  EXPECT_THAT(open_error(call + ", sep=\";\")"),
              AllOf(HasSubstr("no column `image`"), HasSubstr("it has filename, species"), HasSubstr("image=filename")));
  EXPECT_THAT(open_error(call + ", sep=\";\", image=filename, label=specis)"),
              AllOf(HasSubstr("no column `specis`"), HasSubstr("did you mean `species`?")));
  EXPECT_THAT(open_error(call + ", sep=ab)", Exit::kUsage), HasSubstr("is not one character"));
  write_text(dir / "a.csv", "image,image\na,b\n");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("has 2 columns `image`"));
  write_text(dir / "a.csv", "image,\"label\na,b\n");
  EXPECT_THAT(open_error(call + ")"), HasSubstr("a quote in the first row"));
}

}  // namespace
}  // namespace tessera::data
