// tessera data check and data show.

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "image/codec/decode.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DataCheck, NamesEveryUnreadableFile) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  const Outcome good = run_program({"data", "check", "train"}, folder.path());
  EXPECT_EQ(good.exit, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("train"));
  EXPECT_THAT(good.out, HasSubstr("2 classes"));

  const std::string image = read_file(folder / "train" / "left" / "0.png");
  write_file(folder / "train" / "left" / "cut.png", image.substr(0, image.size() - 30));
  write_file(folder / "train" / "right" / "empty.png", "");
  write_file(folder / "train" / "right" / "text.png", "not an image");
  const Outcome bad = run_program({"data", "check", "train"}, folder.path());
  EXPECT_EQ(bad.exit, 3);
  for (const char* name : {"train/left/cut.png: ", "train/right/empty.png: ", "train/right/text.png: "}) {
    EXPECT_THAT(bad.out, HasSubstr(name));
  }
  const Json json = run_program({"data", "check", "--json", "train"}, folder.path()).json().at(0)["sources"][0];
  EXPECT_EQ(json["source"], "train");
  EXPECT_EQ(json["files"], 9);
  ASSERT_EQ(json["unreadable"].size(), 3u);
  EXPECT_EQ(json["unreadable"][0]["path"], "train/left/cut.png");
  EXPECT_NE(json["unreadable"][0]["reason"], "");
  EXPECT_EQ(json["formats"]["PNG"], 6);
}

TEST(DataCheck, TakesARecipeWithAllItsData) {
  const TempFolder folder;
  write_images(folder / "train", 2);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome = run_program({"data", "check", "tiny.toml", "--json"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const Json sources = outcome.json().at(0)["sources"];
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0]["files"], 4);
  EXPECT_EQ(sources[1]["files"], 2);
  EXPECT_EQ(sources[1]["split"], "val");
  // The pictures of val are copies of some of train's.
  EXPECT_TRUE(sources[0]["in_training"].empty());
  EXPECT_EQ(sources[1]["in_training"], Json({"left/0.png", "right/0.png"}));
  // Names of folders tell the parts apart, and where they don't the recipe's do.
  EXPECT_THAT(run_program({"data", "check", "tiny.toml"}, folder.path()).out, HasSubstr("val   2 classes, 2 files"));
  const Outcome same = run_program({"data", "check", "tiny.toml", "eval.val.data.source=folder(train)"}, folder.path());
  EXPECT_THAT(same.out, HasSubstr("train [train]   2 classes, 4 files"));
  EXPECT_THAT(same.out, HasSubstr("train [val]   2 classes, 4 files"));
  EXPECT_THAT(same.out, Not(HasSubstr("in training too"))) << "as it says itself";
  const Outcome part =
      run_program({"data", "check", "tiny.toml", "eval.val.data.source=part(folder(train), train, 1 %)"}, folder.path());
  EXPECT_THAT(part.out, HasSubstr("  4 pictures are in training too: left/0.png, left/1.png, right/0.png, …\n")) << part.err;
}

TEST(DataCheck, RefusesFoldersWithoutClassesOrImages) {
  const TempFolder folder;
  fs::create_directories(folder / "empty");
  const Outcome empty = run_program({"data", "check", "empty"}, folder.path());
  EXPECT_EQ(empty.exit, 3);
  EXPECT_THAT(empty.err, HasSubstr("make one sub-folder for each class"));
  write_image(folder / "classes" / "full" / "a.png", 0, 0);
  fs::create_directories(folder / "classes" / "hollow");
  const Outcome hollow = run_program({"data", "check", "classes"}, folder.path());
  EXPECT_EQ(hollow.exit, 3);
  const Outcome none = run_program({"data", "check", "nofolder"}, folder.path());
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.err,
              AllOf(HasSubstr("`nofolder` is no folder, source or recipe"), HasSubstr("a sub-folder for each class")));
  write_file(folder / "labels.csv", "file,label\n");
  const Outcome table = run_program({"data", "check", "labels.csv"}, folder.path());
  EXPECT_EQ(table.exit, 2);
  EXPECT_THAT(table.err, HasSubstr("\"csv(labels.csv, image=COLUMN, label=COLUMN)\""));
  EXPECT_THAT(hollow.err, HasSubstr("`hollow`"));
}

TEST(DataCheck, TakesASourceAndTellsOddSizes) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  image::Image strip(64, 2);
  std::fill_n(strip.row(0), strip.byte_count(), uint8_t{7});
  image::write_png((folder / "train" / "left" / "strip.png").string(), strip.view());
  const Outcome outcome = run_program({"data", "check", "folder(train)", "--json"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const Json source = outcome.json().at(0)["sources"][0];
  EXPECT_EQ(source["call"], "folder(train)");
  ASSERT_EQ(source["odd_sizes"].size(), 1u);
  EXPECT_EQ(source["odd_sizes"][0]["path"], "left/strip.png");
  EXPECT_EQ(source["odd_sizes"][0]["reason"], "a side is 32 times the other");
  EXPECT_THAT(run_program({"data", "check", "folder(train)"}, folder.path()).out,
              HasSubstr("1 picture of odd sizes:\n    left/strip.png: 64 x 2"));
  const Outcome fake = run_program({"data", "check", "fake(images=9, classes=3)"}, folder.path());
  EXPECT_EQ(fake.exit, 0);
  EXPECT_EQ(fake.out, "");
  EXPECT_THAT(fake.err, HasSubstr("there is nothing to check"));
}

TEST(DataBench, MeasuresStageByStage) {
  const TempFolder folder;
  write_images(folder / "train", 12);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome =
      run_program({"data", "bench", "tiny.toml", "--seconds", "1", "--threads", "1", "--json"}, folder.path());
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json json = outcome.json().at(0);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_GT(json["images_per_second"].get<double>(), 10);
  EXPECT_GT(json["slot_bytes"].get<int64_t>(), 0);
  double host = 0;
  for (const char* stage : {"read", "decode", "resize", "augment", "batch"}) {
    host += json["stages"][stage].get<double>();
  }
  // One thread can't have spent more than the time there was.
  EXPECT_LE(host, 1.05 / json["images_per_second"].get<double>());
  EXPECT_TRUE(json["stages"].contains(json["bound"].get<std::string>()));
  EXPECT_THAT(run_program({"data", "bench", "tiny.toml", "--seconds", "1"}, folder.path()).out,
              AllOf(HasSubstr("<- bounds the rest"), HasSubstr("images/s")));
}

TEST(DataIndex, TellsWhatIsThere) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  for (const char* name : {"train", "train/left", "train/right"})
    fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const Outcome first = run_program({"data", "index", "tiny.toml"}, folder.path());
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("train   6 samples, 2 classes   index built"));
  EXPECT_THAT(first.out, HasSubstr("val   2 samples, 2 classes   index built"));
  const Json json = run_program({"data", "index", "tiny.toml", "--json"}, folder.path()).json().at(0);
  EXPECT_EQ(json["sources"][0]["index"], "up to date");
  EXPECT_EQ(json["sources"][0]["samples"], 6);
  EXPECT_EQ(json["sources"][0]["call"], "folder(train)");
}

TEST(DataConvert, ConvertsARecipesData) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const std::vector<std::string> words = {"data", "convert", "tiny.toml", "--to", "array_record", "--out", "sets/tiny"};
  const Outcome outcome = run_program(words, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "sets/tiny\n");
  EXPECT_THAT(outcome.err, HasSubstr("train   6 samples in 1 shard,"));
  EXPECT_THAT(run_program(words, folder.path()).err, HasSubstr("1 of them there before"));
  const Outcome check = run_program({"data", "check", "tfds(tiny, split=val, data_dir=sets)"}, folder.path());
  EXPECT_EQ(check.exit, 0) << check.err;
  EXPECT_THAT(check.out, AllOf(HasSubstr("2 classes, 2 files"), HasSubstr("\n  files of a class: left 1, right 1\n")));
  // An image that cannot be read is left out, named, and told by the exit code.
  write_file(folder / "train" / "left" / "bad.png", "bad");
  const Outcome bad = run_program({"data", "convert", "train", "--to", "tar", "--out", "t", "--quality", "90"}, folder.path());
  EXPECT_EQ(bad.exit, 3);
  EXPECT_THAT(bad.err, HasSubstr("left out: left/bad.png: "));
  // Limits: the recipe's, or a flag's.
  const auto encode = [&](const std::string& data, const std::string& out, const std::string& word) {
    return run_program({"data", "convert", data, "--to", "tar", "--out", out, "--quality", "90", word}, folder.path()).err;
  };
  EXPECT_THAT(encode("tiny.toml", "v", "data.limits.max_pixels=4"), HasSubstr("pixels are over the limit of 4"));
  EXPECT_THAT(encode("val", "w", "--max-pixels=5"), HasSubstr("pixels are over the limit of 5"));
  EXPECT_THAT(encode("val", "x", "--max-memory=12 B"), HasSubstr("over the limit of 12 B"));
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--to", "zip"}, {"--shard-size", "x"}, {"--quality", "101"}, {"--resize", "70000"}}) {
    std::vector<std::string> all = {"data", "convert", "train", "--to", "tar", "--out", "u"};
    all.insert(all.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(run_program(all, folder.path()).exit, 2) << wrong[0];
  }
}

// Killed while it writes, and started again: the files at the end are those that an undisturbed conversion writes.
TEST(DataConvert, GoesOnAfterAKill) {
  const TempFolder folder;
  write_images(folder / "train", 150);
  const std::vector<std::string> words = {"data", "convert", "train", "--to", "tfrecord", "--shard-size", "600", "--out"};
  const auto with_out = [&](const std::string& out) {
    std::vector<std::string> all = words;
    all.push_back(out);
    return all;
  };
  ASSERT_EQ(run_program(with_out("whole/set"), folder.path()).exit, 0);
  const auto shards = [&](const std::string& out) {
    size_t count = 0;
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(folder / (out + "/1.0.0"), none_yet))
      count += entry.path().filename().string().find("tfrecord-") != std::string::npos;
    return count;
  };
  const size_t all = shards("whole/set");
  ASSERT_GT(all, 20u);
  {
    RunningProgram program(with_out("killed/set"), folder.path());
    while (program.running() && shards("killed/set") < 5) ::usleep(500);
    program.send(SIGKILL);
    program.wait();
  }
  EXPECT_LT(shards("killed/set"), all);
  const Outcome again = run_program(with_out("killed/set"), folder.path());
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("of them there before"));
  for (const auto& entry : fs::directory_iterator(folder / "whole/set/1.0.0")) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(read_file(folder / ("killed/set/1.0.0/" + name)), read_file(entry.path())) << name;
  }
  EXPECT_EQ(shards("killed/set"), all);
}

TEST(DataShow, DrawsTheFirstTrainingImages) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome = run_program({"data", "show", "tiny.toml", "--out", "picture.png", "--count", "4"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "picture.png\n");
  const std::string file = read_file(folder / "picture.png");
  image::Decoder decoder;
  image::Image image;
  ASSERT_FALSE(decoder.decode({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, image));
  EXPECT_GE(image.width(), 2 * 96);
  EXPECT_GE(image.height(), 96);
  // The same seed draws the same picture; another one does not.
  run_program({"data", "show", "tiny.toml", "--count", "4"}, folder.path());
  EXPECT_EQ(read_file(folder / "sheet.png"), file);
  run_program({"data", "show", "tiny.toml", "--count", "4", "seed=9"}, folder.path());
  EXPECT_NE(read_file(folder / "sheet.png"), file);
}

TEST(DataShow, SaysWhatWasDoneToEachImage) {
  const TempFolder folder;
  write_images(folder / "train", 3);
  write_images(folder / "val", 1);
  write_file(folder / "tiny.toml", tiny_recipe());
  const Outcome outcome = run_program({"data", "show", "tiny.toml", "--json", "--before", "--count", "2"}, folder.path());
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const nlohmann::json shown = nlohmann::json::parse(line);
    EXPECT_TRUE(shown["class"].is_string()) << line;
    EXPECT_TRUE(shown["part"]["width"].is_number()) << line;
    EXPECT_TRUE(shown["steps"].is_array()) << line;
  }
  EXPECT_EQ(count, 2);
}

// Four pictures with captions, the last too long for tokenize(8), and a recipe's data for them.
void write_captions(const TempFolder& folder) {
  const char* captions[] = {"a small red circle", "a large blue square", "a small blue circle",
                            "a large red circle and a small red square"};
  std::string lines;
  for (int i = 0; i < 4; ++i) {
    write_image(folder / "images" / fmt::format("{}.png", i), i % 2, i);
    lines += fmt::format("{{\"image\": \"images/{}.png\", \"caption\": \"{}\", \"all\": [\"x\", \"\"]}}\n", i, captions[i]);
  }
  write_file(folder / "captions.jsonl", lines);
  write_file(folder / "captions.toml",
             "data = { source = \"jsonl(captions.jsonl, text=[caption, all])\", batch = 2, pp = \"decode | resize(8) | "
             "tokenize(8, model=words.model, key=caption)\" }\n");
}

TEST(DataTokenizer, MakesAModelThatARecipeUses) {
  const TempFolder folder;
  write_captions(folder);
  const std::string source = "jsonl(captions.jsonl, text=[caption, all])";
  const Outcome absent = run_program({"data", "check", "captions.toml"}, folder.path());
  EXPECT_EQ(absent.exit, 2);
  EXPECT_THAT(absent.err,
              AllOf(HasSubstr("the tokenizer's model cannot be read"), HasSubstr("`tessera data tokenizer` makes")));
  const std::vector<std::string> make = {"data",   "tokenizer", source,  "--text",     "caption",
                                         "--kind", "word",      "--out", "words.model"};
  const Outcome made = run_program(make, folder.path());
  EXPECT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(made.out, "words.model\n");
  EXPECT_THAT(made.err, HasSubstr("11 pieces from 4 texts; the longest has 10 ids"));
  const std::string model = read_file(folder / "words.model");
  run_program(make, folder.path());
  EXPECT_EQ(read_file(folder / "words.model"), model);

  const Json check = run_program({"data", "check", "captions.toml", "--json"}, folder.path()).json().at(0)["sources"][0];
  EXPECT_EQ(check["cut_texts"], 1);
  EXPECT_EQ(check["texts"][0]["longest_path"], "images/3.png");
  EXPECT_EQ(check["texts"][1]["texts"], 8);
  EXPECT_EQ(check["texts"][1]["empty"], 4);
  EXPECT_THAT(run_program({"data", "check", "captions.toml"}, folder.path()).out,
              HasSubstr("1 texts have more ids than `tokenize` keeps, and are cut"));
  const auto shown = run_program({"data", "show", "captions.toml", "--json"}, folder.path()).json();
  ASSERT_EQ(shown.size(), 4u);
  for (const Json& one : shown) {
    const auto caption = one["texts"]["caption"][0].get<std::string>();
    const auto text = one["tokens"]["labels"]["text"].get<std::string>();
    EXPECT_EQ(caption.substr(0, text.size()), text);
    EXPECT_EQ(one["tokens"]["labels"]["ids"].size(), 8u);
  }
}

TEST(DataTokenizer, MistakesAreExplained) {
  const TempFolder folder;
  write_captions(folder);
  const auto fails = [&](const std::string& text, const std::string& source, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"data", "tokenizer", source};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run_program(words, folder.path());
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  const std::string source = "jsonl(captions.jsonl, text=caption)";
  fails("the source has no texts", "jsonl(captions.jsonl)", {});
  fails("the source has several texts", "jsonl(captions.jsonl, text=[caption, all])", {});
  fails("did you mean `caption`?", source, {"--text", "captoin"});
  fails("unknown kind `bpee`", source, {"--kind", "bpee"});
  fails("SentencePiece makes no model of these texts: Vocabulary size", source, {"--size", "4"});
}

}  // namespace
}  // namespace tessera::cli
