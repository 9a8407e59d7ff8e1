// jsonl(…): lines that name image files.

#include "data/format_testing.h"
#include "data/formats/bytes/bytes_file.h"
#include "data/formats/lines.h"

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

void write_text(const std::string& path, const std::string& text) {
  image::testing::write_file(path, {text.begin(), text.end()});
}

std::string reason(const Source& source, int64_t index) {
  Sample sample;
  return source.read(index, sample).value_or("read");
}

// The reference samples, with the images' folder `before` their names.
std::string lines(const std::string& before) {
  std::string text = "\xef\xbb\xbf";
  size_t i = 0;
  for (const auto& sample : testing::reference_samples()) {
    text += "{\"image\": \"" + before + (i < 10 ? "0" : "") + std::to_string(i) + (i % 3 == 0 ? ".png" : ".jpg") +
            "\", \"label\": " + std::to_string(sample.label) + ", \"caption\": \"" + sample.caption +
            "\", \"meta\": {\"class\": \"" + testing::kClasses[static_cast<size_t>(sample.label)] + "\"}}" +
            (i % 2 ? "\r\n \n" : "\n");
    ++i;
  }
  return text.substr(0, text.size() - 4);
}

TEST(JsonlSource, ReadsLines) {
  const TempDir dir;
  write_text(dir / "a.jsonl", lines(kFormats + "/images/"));
  const auto source = make_source("jsonl(" + (dir / "a.jsonl") + ", text=[caption, meta])");
  expect_samples(*source, range(0, 12));
  EXPECT_EQ(source->id(1), kFormats + "/images/01.jpg");
  EXPECT_THAT(source->text_fields(), ElementsAre("caption", "meta"));
  Sample sample;
  ASSERT_FALSE(source->read(1, sample));
  EXPECT_EQ(sample.texts[1][0], "{\"class\":\"owl\"}");
  const auto named = make_source("jsonl(" + (dir / "a.jsonl") + ", label=meta.class)");
  EXPECT_EQ(named->class_names(), testing::kClasses);
  expect_samples(*named, range(0, 12));
  // Paths start from the file's folder, or from another.
  write_text(dir / "b.jsonl", lines(""));
  expect_samples(*make_source("jsonl(" + (dir / "b.jsonl") + ", root=" + kFormats + "/images, label=none)"), range(0, 12));
  write_text(dir / "c.jsonl", "{\"file\": \"here.png\", \"caption\": \"a \\u00e4\\n\"}");
  write_text(dir / "here.png", "bytes");
  const auto here = make_source("jsonl(" + (dir / "c.jsonl") + ", image=file, text=caption)");
  ASSERT_FALSE(here->read(0, sample));
  EXPECT_EQ(std::string(sample.image.begin(), sample.image.end()), "bytes");
  EXPECT_EQ(sample.texts[0][0], "a ä\n");
  EXPECT_TRUE(here->class_names().empty());
}

TEST(JsonlSource, MistakesAreExplained) {
  const TempDir dir;
  EXPECT_THAT(open_error("jsonl(" + (dir / "none") + ")"), HasSubstr("No such file"));
  write_text(dir / "a", "\n \n");
  EXPECT_THAT(open_error("jsonl(" + (dir / "a") + ")"), HasSubstr("has no lines"));
  write_text(dir / "a", "[1]\n");
  EXPECT_THAT(open_error("jsonl(" + (dir / "a") + ")"), AllOf(HasSubstr("is no JSON object"), HasSubstr("{\"image\"")));
  write_text(dir / "a", "{\"imag\": \"x\"}\n");
  EXPECT_THAT(open_error("jsonl(" + (dir / "a") + ")"), AllOf(HasSubstr("has no `image`"), HasSubstr("did you mean `imag`?")));
  EXPECT_THAT(open_error("jsonl(" + (dir / "a") + ", image=imag, label=l)"), HasSubstr("has no `l`"));
}

TEST(JsonlSource, ArraysHoldTextsAlone) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  write_text(dir / "a.jsonl", R"({"image": "x.png", "label": "b", "t": ["a", null]}
{"image": "x.png", "label": "a", "t": [["a"]]}
{"image": "x.png", "label": "b", "t": null}
{"image": "x.png", "label": "b", "t": []}
)");
  const auto source = make_source("jsonl(" + (dir / "a.jsonl") + ", text=t)");
  EXPECT_EQ(reason(*source, 0), "its array `t` holds something else than texts");
  EXPECT_EQ(reason(*source, 1), "its array `t` holds something else than texts");
  EXPECT_EQ(reason(*source, 2), "it has no text `t`");
  EXPECT_EQ(reason(*source, 3), "read");
  EXPECT_THAT(source->class_sizes(), ::testing::Optional(ElementsAre(1, 3)));
}

TEST(JsonlSource, TextsMayBeSeveral) {
  const TempDir dir;
  write_text(dir / "x.png", "x");
  write_text(dir / "a.jsonl",
             "{\"image\": \"x.png\", \"c\": [\"one\", \"\", \"two\"]}\n{\"image\": \"x.png\", \"c\": []}\n"
             "{\"image\": \"x.png\", \"c\": {\"a\": 1}}\n{\"image\": \"x.png\", \"c\": \"three\"}\n");
  const auto source = make_source("jsonl(" + (dir / "a.jsonl") + ", text=c)");
  const std::vector<TextValues> wanted = {{"one", "", "two"}, {}, {"{\"a\":1}"}, {"three"}};
  Sample sample;
  for (int64_t i = 0; i < 4; ++i) {
    ASSERT_FALSE(source->read(i, sample));
    EXPECT_EQ(sample.texts, std::vector<TextValues>{wanted[static_cast<size_t>(i)]});
  }
}

TEST(JsonlSource, ReadsSeveralFiles) {
  const TempDir dir;
  for (const std::string folder : {"a", "b"}) {
    const std::string name = folder == "a" ? "red" : "blue";
    write_text(dir / (folder + "/" + name + ".png"), name);
    write_text(dir / (folder + "/part.jsonl"), "{\"image\": \"" + name + ".png\", \"label\": \"" + name + "\"}\n[]\n");
  }
  // Each file's images are beside it, unless a root is named.
  const auto source = make_source("jsonl(" + (dir / "{a,b}/part.jsonl") + ")");
  ASSERT_EQ(source->size(), 4);
  EXPECT_THAT(source->class_names(), ElementsAre("blue", "red"));
  Sample sample;
  for (const auto& [index, name] : {std::pair(0, std::string("red")), std::pair(2, std::string("blue"))}) {
    ASSERT_FALSE(source->read(index, sample));
    EXPECT_EQ(std::string(sample.image.begin(), sample.image.end()), name);
    EXPECT_EQ(source->class_names()[static_cast<size_t>(sample.label)], name);
    EXPECT_EQ(source->id(index), name + ".png");
  }
  EXPECT_THAT(reason(*source, 3), HasSubstr("b/part.jsonl` is no JSON object"));
  EXPECT_EQ(source->id(3), "part.jsonl#1");
  const auto rooted = make_source("jsonl(" + (dir / "{a,b}/part.jsonl") + ", root=" + (dir / "a") + ")");
  EXPECT_EQ(reason(*rooted, 0), "read");
  EXPECT_NE(reason(*rooted, 2), "read");
}

TEST(JsonlSource, LinesThatNestDeepOrSayAKeyTwiceAreReasons) {
  const TempDir dir;
  const std::string deep(100'000, '['), back(100'000, ']');
  write_text(dir / "a", "{\"image\": \"a\", \"label\": 1}\n{\"image\": \"a\", \"label\": " + deep + back +
                            "}\n{\"image\": \"a\", \"label\": 1, \"label\": 2}\n");
  const auto source = make_source("jsonl(" + (dir / "a") + ")");
  ASSERT_EQ(source->size(), 3);
  EXPECT_THAT(reason(*source, 1), HasSubstr("no JSON object: it nests more than 64 levels deep"));
  EXPECT_THAT(reason(*source, 2), HasSubstr("no JSON object: the key `label` is given twice"));
}

TEST(JsonlSource, OddLinesAreReasons) {
  const TempDir dir;
  write_text(dir / "a",
             "{\"image\": \"gone.jpg\", \"label\": 1, \"caption\": \"\"}\n{\"image\": \n{\"image\": 3, \"label\": 1}\n"
             "{\"image\": \"a\", \"label\": null}\n{\"image\": \"a\", \"label\": 1.5}\n{\"image\": \"a\", \"label\": 1}\n");
  const auto source = make_source("jsonl(" + (dir / "a") + ", text=caption)");
  EXPECT_EQ(source->class_names().size(), 2u);
  EXPECT_EQ(source->size(), 6);
  EXPECT_EQ(reason(*source, 0), "No such file or directory");
  EXPECT_THAT(reason(*source, 1), AllOf(HasSubstr("the line at offset 49"), HasSubstr("no JSON object")));
  EXPECT_THAT(reason(*source, 2), HasSubstr("no image `image`"));
  EXPECT_THAT(reason(*source, 3), HasSubstr("no label `label`"));
  EXPECT_THAT(reason(*source, 4), HasSubstr("neither a whole number nor a text"));
  EXPECT_THAT(reason(*source, 5), HasSubstr("no text `caption`"));
}

// A block of zeros in the place of lines, as of a hole: of any size.
TEST(JsonlSource, ZerosAreNoText) {
  const TempDir dir;
  write_text(dir / "a", "{\"image\": \"a.png\", \"label\": 1}\n" + std::string(100, '\0') + "\n");
  EXPECT_THAT(open_error("jsonl(" + (dir / "a") + ")"), HasSubstr("is no text: byte 31 is 0"));
  write_text(dir / "b", "");
  std::filesystem::resize_file(dir / "b", int64_t{1} << 36);
  EXPECT_THAT(open_error("jsonl(" + (dir / "b") + ")"), HasSubstr("is no text: byte 0 is 0"));
}

TEST(Lines, CrossChunks) {
  std::string text(1'100'000, 'a');
  text += "\nb\n\n" + std::string(2'000'000, ' ') + "\nc";
  const BytesFile file(text);
  EXPECT_THAT(scan_lines("list", file), ElementsAre(Extent{0, 1'100'000}, Extent{1'100'001, 1}, Extent{3'100'005, 1}));
  EXPECT_EQ(first_line("list", file).size(), 1'100'000u);
  EXPECT_TRUE(scan_lines("list", BytesFile("\r\n")).empty());
}

}  // namespace
}  // namespace tessera::data
