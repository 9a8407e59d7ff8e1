// tessera caption: a captioner that is trained for some steps writes, in every way, and what its user can get wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Words of a fake tokenizer are numbers.
constexpr const char* kRecipe = R"toml(
total      = "2 steps"
checkpoint = { every = "2 steps" }
data       = { source = "fake(images=16, classes=4, words=5)", batch = 8, pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }
model      = { name = "cappa", width = 16, depth = 1, heads = 2, patch = 4, decoder_depth = 1 }
objective  = { name = "captioning" }
optimizer  = { name = "sgd", lr = "constant(0.1)" }
[eval.nll]
type  = "perplexity"
data  = { source = "fake(images=8, classes=4, words=5)", pp = "decode | resize(8) | value_range(-1, 1) | tokenize(6, model=fake(30))" }
every = "2 steps"
batch = 8
)toml";

class CaptionCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    write_file(*folder_ / "captions.toml", kRecipe);
    write_images(*folder_ / "photos", 2);
    const Outcome trained = tessera({"train", "captions.toml", "--workdir", "run"});
    ASSERT_EQ(trained.exit, 0) << trained.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static Outcome tessera(const std::vector<std::string>& args) { return run_program(args, folder_->path()); }
  static Outcome caption(std::vector<std::string> more) {
    more.insert(more.begin(), {"caption", "--from", "run"});
    return tessera(more);
  }
  static void expect_usage_error(const std::vector<std::string>& args, const std::string& message) {
    const Outcome outcome = caption(args);
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("error: " + message));
  }

  static inline TempFolder* folder_ = nullptr;
};

TEST_F(CaptionCommand, WritesALineAnImage) {
  EXPECT_THAT(tessera({"train", "captions.toml", "--workdir", "run"}).out,  // it is finished
              HasSubstr("next        tessera caption --from run IMAGE…\n"));
  const Outcome greedy = caption({"photos"});
  ASSERT_EQ(greedy.exit, 0) << greedy.err;
  EXPECT_EQ(greedy.err, "");
  EXPECT_EQ(std::count(greedy.out.begin(), greedy.out.end(), '\n'), 4);
  EXPECT_THAT(greedy.out, StartsWith("photos/"));
  EXPECT_EQ(caption({"photos", "--batch", "3"}).out, greedy.out);
  EXPECT_EQ(caption({"photos", "--no-cache"}).out, greedy.out);
}

TEST_F(CaptionCommand, JsonHasEveryFinishedCaption) {
  const Outcome beams = caption({"photos", "--beams", "3", "--json", "--speed"});
  ASSERT_EQ(beams.exit, 0) << beams.err;
  EXPECT_THAT(beams.err, HasSubstr(" tokens/s"));
  const std::vector<Json> lines = beams.json();
  ASSERT_EQ(lines.size(), 4u);
  for (const Json& line : lines) {
    ASSERT_FALSE(line["captions"].empty());
    for (size_t i = 0; i < line["captions"].size(); ++i) {
      const Json& one = line["captions"][i];
      EXPECT_TRUE(one["text"].is_string());
      EXPECT_LE(one["tokens"].size(), 6u);
      if (i > 0) {
        EXPECT_LE(one["score"], line["captions"][i - 1]["score"]);
      }
    }
  }
}

TEST_F(CaptionCommand, DrawsAreOfTheirSeed) {
  const Outcome first = caption({"photos", "--top-p", "0.9", "--seed", "1"});
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_EQ(caption({"photos", "--top-p", "0.9", "--seed", "1", "--batch", "1"}).out, first.out);
  EXPECT_NE(caption({"photos", "--top-p", "0.9", "--seed", "2"}).out, first.out);
}

TEST_F(CaptionCommand, NamesWhatItCannotReadAndGoesOn) {
  write_file(*folder_ / "text.png", "not an image");
  const Outcome outcome = caption({"text.png", "photos", "--json"});
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.err, HasSubstr("error: cannot read `text.png`: "));
  const std::vector<Json> lines = outcome.json();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[0].contains("error") && !lines[0].contains("captions"));
  EXPECT_TRUE(lines[1].contains("captions"));
}

TEST_F(CaptionCommand, MistakesAreExplained) {
  expect_usage_error({"photos", "--beams", "0"}, "`--beams` must be at least 1, and is 0");
  expect_usage_error({"photos", "--top-p", "0"}, "`--top-p` must be in (0, 1], and is 0");
  expect_usage_error({"photos", "--top-p", "1.5"}, "`--top-p` must be in (0, 1], and is 1.5");
  expect_usage_error({"photos", "--top-p", "nan"}, "`--top-p` must be in (0, 1], and is nan");
  expect_usage_error({"photos", "--top-p", "much"}, "`--top-p` takes a number, and is \"much\"");
  expect_usage_error({"photos", "--top-p", "0.9", "--beams", "2"}, "`--beams` searches and `--top-p` draws");
  expect_usage_error({"photos", "--seed", "1"}, "`--seed` is of draws, and nothing is drawn");
  expect_usage_error({"photos", "--length-penalty", "1"}, "`--length-penalty` is of a beam search, and there is none");
  expect_usage_error({"photos", "--max-tokens", "7"}, "captions of 7 tokens are asked for, and the model's have 6 at most");
  expect_usage_error({}, "tessera caption needs images");
  expect_usage_error({"photos", "--pp", "decode | resize(12)"}, "the preprocessing makes images of 12 x 12");
}

// Ids of another tokenizer are other words, or none.
TEST_F(CaptionCommand, ATokenizerThatWasReplacedIsRefused) {
  const auto make_tokenizer = [](const std::string& first, const std::string& second) {
    write_file(*folder_ / "texts.jsonl", "{\"image\": \"photos/left/0.png\", \"caption\": \"" + first + "\"}\n" +
                                             "{\"image\": \"photos/right/0.png\", \"caption\": \"" + second + "\"}\n");
    const Outcome made =
        tessera({"data", "tokenizer", "jsonl(texts.jsonl, text=caption)", "--kind", "word", "--size", "64", "--out", "words"});
    ASSERT_EQ(made.exit, 0) << made.err;
  };
  make_tokenizer("a red ring", "a blue square");
  std::string recipe = kRecipe;
  recipe.resize(recipe.find("[eval.nll]"));
  write_file(*folder_ / "words.toml", recipe);
  const std::vector<std::string> train = {
      "train",
      "words.toml",
      "--workdir",
      "words_run",
      "data.batch=2",
      "data.source=jsonl(texts.jsonl, text=caption)",
      "data.pp=decode | resize(8) | value_range(-1, 1) | tokenize(6, model=words, key=caption)"};
  const Outcome trained = tessera(train);
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const std::vector<std::string> write = {"caption", "--from", "words_run", "--pp", "decode | resize(8) | value_range(-1, 1)",
                                          "photos"};
  ASSERT_EQ(tessera(write).exit, 0);
  // One of as many pieces: the run does not go on with other words for its tokens.
  make_tokenizer("a red ring", "a blue circle");
  std::vector<std::string> longer = train;
  longer.emplace_back("total=4 steps");
  const Outcome other = tessera(longer);
  EXPECT_EQ(other.exit, 3) << other.err;
  EXPECT_THAT(other.err, HasSubstr("the tokenizer `words` is another file"));
  const Outcome alike = tessera(write);
  EXPECT_EQ(alike.exit, 3) << alike.err;
  EXPECT_THAT(alike.err, StartsWith("error: `words` is another file than when the run was trained"));
  make_tokenizer("a red ring", "blue");
  const Outcome outcome = tessera(write);
  EXPECT_EQ(outcome.exit, 3) << outcome.err;
  EXPECT_THAT(outcome.err, StartsWith("error: `words` has 7 pieces, and had 8 when the run was trained"));
}

TEST_F(CaptionCommand, AClassifierWritesNone) {
  const std::string classifier = testing::source_path("tests/references/timm_local_dir");
  const Outcome outcome = tessera({"caption", "--from", classifier, "photos"});
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, StartsWith("error: the model writes no captions"));
  EXPECT_THAT(outcome.err, HasSubstr("tessera predict"));
  const Outcome other = tessera({"predict", "--from", "run", "photos"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("tessera caption"));
}

}  // namespace
}  // namespace tessera::cli
