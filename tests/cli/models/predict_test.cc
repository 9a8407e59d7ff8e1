// tessera predict, against what timm gives for its own directory.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/run_program.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kReference = testing::source_path("tests/references/timm_local_dir");

TEST(Predict, EqualsTimm) {
  const Outcome outcome = run_program({"predict", "--from", kReference, kReference + "/image.png", "--json", "--logits"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  ASSERT_EQ(outcome.json().size(), 1u);
  const Json got = outcome.json()[0], want = Json::parse(read_file(kReference + "/expected.json"));
  EXPECT_EQ(got["path"], kReference + "/image.png");
  ASSERT_EQ(got["logits"].size(), want["logits"].size());
  for (size_t i = 0; i < want["logits"].size(); ++i) EXPECT_NEAR(got["logits"][i], want["logits"][i], 1e-5) << i;
  ASSERT_EQ(got["top"].size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(got["top"][i]["class"], want["top"][i]["class"]);
    EXPECT_EQ(got["top"][i]["index"], want["top"][i]["index"]);
    EXPECT_NEAR(got["top"][i]["prob"], want["top"][i]["prob"], 1e-6);
  }
}

// The logits are transformers' own, of its own preprocessing (tools/references/models/hugging_face_weights.py).
TEST(Predict, EqualsHuggingFace) {
  const std::string directory = testing::source_path("tests/references/hugging_face_dir");
  const Outcome outcome = run_program({"predict", "--from", directory, kReference + "/image.png", "--json", "--logits"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json got = outcome.json().at(0), want = Json::parse(read_file(directory + "/expected.json"));
  ASSERT_EQ(got["logits"].size(), want["logits"].size());
  for (size_t i = 0; i < want["logits"].size(); ++i) EXPECT_NEAR(got["logits"][i], want["logits"][i], 1e-5) << i;
  EXPECT_EQ(got["top"][0]["class"], want["class"]);
}

TEST(Predict, ComputesInBf16WhereThatIsAsked) {
  const std::vector<std::string> words = {"predict", "--from", kReference, kReference + "/image.png", "--json", "--logits"};
  const auto logits = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const Outcome outcome = run_program(more);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.json().at(0)["logits"].get<std::vector<double>>();
  };
  const std::vector<double> f32 = logits({"--dtype", "f32"}), bf16 = logits({"--dtype", "bf16"});
  EXPECT_EQ(f32, logits({}));
  EXPECT_NE(bf16, f32);
  double most = 0;
  for (const double one : f32) most = std::max(most, std::abs(one));
  EXPECT_THAT(bf16, ::testing::Pointwise(::testing::DoubleNear(0.05 * most), f32));
  const Outcome other = run_program({"predict", "--from", kReference, kReference + "/image.png", "--dtype", "f16"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, HasSubstr("f32 or bf16"));
}

TEST(Predict, TextIsOneLineAnImage) {
  const Outcome outcome = run_program({"predict", kReference + "/image.png", "--top=2", "--from", kReference});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_EQ(outcome.out, kReference + "/image.png   seven 29.7 %   five 21.7 %\n");
}

TEST(Predict, NamesWhatItCannotReadAndGoesOn) {
  const TempFolder folder;
  const std::string image = read_file(kReference + "/image.png");
  write_file(folder / "a.png", image);
  write_file(folder / "cut.png", image.substr(0, image.size() / 2));
  write_file(folder / "empty.png", "");
  write_file(folder / "text.png", "not an image");
  write_file(folder / "z.png", image);
  const Outcome outcome =
      run_program({"predict", "--from", kReference, "--json", "a.png", "cut.png", "empty.png", "text.png", "gone.png", "z.png"},
                  folder.path());
  EXPECT_EQ(outcome.exit, 3);
  const std::vector<Json> lines = outcome.json();
  ASSERT_EQ(lines.size(), 6u);
  const char* names[] = {"a.png", "cut.png", "empty.png", "text.png", "gone.png", "z.png"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i]["path"], names[i]);
    const bool good = i == 0 || i == 5;
    EXPECT_EQ(lines[i].contains("top"), good) << names[i];
    EXPECT_EQ(lines[i].contains("error"), !good) << names[i];
    if (good) continue;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("error: cannot read `") + names[i] + "`: "));
  }
  EXPECT_EQ(lines[0]["top"], lines[5]["top"]);
  EXPECT_THAT(lines[4]["error"].get<std::string>(), HasSubstr("No such file"));
}

TEST(Predict, AnswersDoNotDependOnHowManyImagesThereAre) {
  const TempFolder folder;
  write_images(folder / "images", 20);  // more than one batch
  const Outcome all =
      run_program({"predict", "--from", kReference, "--json", "--logits", (folder / "images").string()}, folder.path());
  ASSERT_EQ(all.exit, 0) << all.err;
  const std::vector<Json> lines = all.json();
  ASSERT_EQ(lines.size(), 40u);
  std::vector<std::string> paths;
  for (const Json& line : lines) paths.push_back(line["path"]);
  EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end()));
  for (const size_t i : {size_t{0}, size_t{33}, size_t{39}}) {
    const Json one = run_program({"predict", "--from", kReference, "--json", "--logits", paths[i]}).json().at(0);
    for (size_t c = 0; c < 10; ++c) EXPECT_NEAR(one["logits"][c], lines[i]["logits"][c], 1e-5) << paths[i];
  }
}

// What folder(path) has: every file but hidden ones, whatever its name ends in, and nothing behind links to folders.
TEST(Predict, FoldersAreThoseOfSources) {
  const TempFolder folder;
  const std::string image = read_file(kReference + "/image.png");
  for (const char* name :
       {"photos/cat/a.png", "photos/cat/deep/no_ending", "photos/.thumbs/c.png", "photos/cat/.hidden.png", "elsewhere/d.png"})
    write_file(folder / name, image);
  write_file(folder / "photos/cat/notes.txt", "no image");
  fs::create_directory_symlink(folder / "elsewhere", folder / "photos/cat/link");
  const Outcome outcome = run_program({"predict", "--from", kReference, "--json", "photos/"}, folder.path());
  EXPECT_EQ(outcome.exit, 3);
  std::vector<std::string> read, unreadable;
  for (const Json& line : outcome.json()) (line.contains("error") ? unreadable : read).push_back(line["path"]);
  EXPECT_THAT(read, ::testing::ElementsAre("photos/cat/a.png", "photos/cat/deep/no_ending"));
  EXPECT_THAT(unreadable, ::testing::ElementsAre("photos/cat/notes.txt"));
  const Json checked = run_program({"data", "check", "folder(photos)", "--json"}, folder.path()).json().at(0)["sources"][0];
  EXPECT_EQ(checked["files"], read.size() + unreadable.size());
  EXPECT_EQ(checked["unreadable"].size(), unreadable.size());
}

// Of this process, and so of the programs that it starts.
class StdinFrom {
 public:
  explicit StdinFrom(const fs::path& path) : before_(::dup(STDIN_FILENO)) {
    const int file = ::open(path.c_str(), O_RDONLY);
    ::dup2(file, STDIN_FILENO);
    ::close(file);
  }
  ~StdinFrom() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }
  StdinFrom(const StdinFrom&) = delete;
  StdinFrom& operator=(const StdinFrom&) = delete;

 private:
  int before_;
};

TEST(Predict, ADashIsAnImageFromStdin) {
  const std::vector<std::string> words = {"predict", "--from", kReference, "--json", "--logits"};
  const auto predict = [&](std::vector<std::string> more, const fs::path& input) {
    more.insert(more.begin(), words.begin(), words.end());
    const StdinFrom from(input);
    return run_program(more);
  };
  const std::string image = kReference + "/image.png";
  // One at a time: in a batch, the plugin's products may round differently from row to row.
  const auto line = [&](const std::string& path, const fs::path& input) {
    const Outcome outcome = predict({path}, input);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.json().at(0);
  };
  const Json read = line("-", image);
  EXPECT_EQ(read["path"], "-");
  EXPECT_EQ(read["logits"], line(image, "/dev/null")["logits"]);
  const Outcome empty = predict({"-"}, "/dev/null");
  EXPECT_EQ(empty.exit, 3);
  EXPECT_THAT(empty.err, HasSubstr("error: cannot read `-`: "));
  const Outcome twice = predict({"-", "-"}, image);
  EXPECT_EQ(twice.exit, 2);
  EXPECT_THAT(twice.err, HasSubstr("is given twice"));
}

TEST(Predict, SaysWhatIsThereInstead) {
  const TempFolder folder;
  const auto error = [&](const std::string& from, int exit) {
    const Outcome outcome = run_program({"predict", "--from", from, "x.png"}, folder.path());
    EXPECT_EQ(outcome.exit, exit);
    return outcome.err;
  };
  EXPECT_THAT(error("google/vit-base-patch16-224", 2), HasSubstr("hub(google/vit-base-patch16-224)"));
  fs::create_directories(folder / "sweep/lr=1e-3/checkpoints");
  EXPECT_THAT(error("sweep", 2), HasSubstr("help: name one of the runs in it: sweep/lr=1e-3\n"));
  EXPECT_THAT(error("sweep/lr=1", 2), Not(HasSubstr("hub(sweep")));
  EXPECT_THAT(error("sweep/lr=1e-3", 3), HasSubstr("the run has no checkpoint yet"));
  fs::create_directories(folder / fmt::format("sweep/lr=1e-3/checkpoints/step_000000003.tmp-{}", getpid()));
  EXPECT_THAT(error("sweep/lr=1e-3", 3), HasSubstr("its first one is being written: try again in a moment"));
}

TEST(Predict, RefusesWhatIsNoModel) {
  const TempFolder folder;
  const Outcome nothing = run_program({"predict", "--from", "gone", "x.png"}, folder.path());
  EXPECT_EQ(nothing.exit, 2);
  EXPECT_THAT(nothing.err, StartsWith("error: `gone` does not exist\n"));
  const Outcome file = run_program({"predict", "--from", kReference + "/model.safetensors", "x.png"}, folder.path());
  EXPECT_EQ(file.exit, 2);
  EXPECT_THAT(file.err, HasSubstr("does not say what model it is for"));
  const Outcome size =
      run_program({"predict", "--from", kReference, "--pp", "decode | resize(12)", kReference + "/image.png"}, folder.path());
  EXPECT_EQ(size.exit, 2);
  EXPECT_THAT(size.err, HasSubstr("makes images of 12 x 12, and the model takes 16 x 16"));
  const Outcome two = run_program({"predict", "--from", kReference, "--from", "gone", "x.png"}, folder.path());
  EXPECT_EQ(two.exit, 2);
  EXPECT_THAT(two.err, StartsWith("error: `--from` is given twice, and takes one\n"));
  fs::create_directories(folder / "none");
  const Outcome empty = run_program({"predict", "--from", kReference, "none"}, folder.path());
  EXPECT_EQ(empty.exit, 3);
  EXPECT_THAT(empty.err, HasSubstr("`none` holds no images"));
}

// 8 x 8 pixels of about one shade.
void write_shade(const fs::path& path, int shade) {
  image::Image image(8, 8);
  for (int y = 0; y < 8; ++y) std::fill_n(image.row(y), 24, static_cast<uint8_t>(shade + y));
  fs::create_directories(path.parent_path());
  image::write_png(path.string(), image.view());
}

// A run on images with several labels gives tags: bright ones are warm too.
TEST(Predict, SaysTagsOverAThreshold) {
  const TempFolder folder;
  std::string table = "image,tags\n";
  for (int i = 0; i < 8; ++i) {
    write_shade(folder / fmt::format("train/bright/{}.png", i), 200 + 5 * i);
    write_shade(folder / fmt::format("train/dark/{}.png", i), 10 + 5 * i);
    table += fmt::format("bright/{0}.png,warm bright\ndark/{0}.png,dark\n", i);
  }
  write_file(folder / "train/tags.csv", table);
  write_file(folder / "tiny.toml", tiny_recipe());
  const std::string source = "csv(train/tags.csv, labels=tags)";
  const Outcome trained = run_program({"train", "tiny.toml", "--workdir", "run", "total=60 steps", "objective=bce",
                                       "data.source=" + source, "eval.val.type=multilabel", "eval.val.data.source=" + source},
                                      folder.path());
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "--from", "run", "train/bright/0.png"});
    return run_program(more, folder.path());
  };
  const Json got = predict({"--json", "--logits"}).json().at(0);
  EXPECT_FALSE(got.contains("top"));
  ASSERT_EQ(got["tags"].size(), 2u) << got;
  for (const Json& tag : got["tags"]) {
    EXPECT_NE(tag["class"], "dark");
    EXPECT_GT(tag["prob"], 0.5);
    EXPECT_NEAR(tag["prob"], 1 / (1 + std::exp(-got["logits"][tag["index"].get<size_t>()].get<double>())), 1e-9);
  }
  EXPECT_GE(got["tags"][0]["prob"], got["tags"][1]["prob"]);
  EXPECT_EQ(predict({"--json", "--threshold", "0"}).json().at(0)["tags"].size(), 3u);
  EXPECT_EQ(predict({"--json", "--top", "1"}).json().at(0)["tags"].size(), 1u);
  EXPECT_THAT(predict({"--threshold", "0.9999"}).out, HasSubstr("train/bright/0.png   no class"));
  const Outcome scored =
      run_program({"eval", "run/recipe.toml", "--from", "run", "--json", "--predictions", "out"}, folder.path());
  ASSERT_EQ(scored.exit, 0) << scored.err;
  EXPECT_GT(scored.json()[0]["val/mAP"], 0.95);
  EXPECT_THAT(read_file(folder / "out/val.jsonl"), HasSubstr(R"("labels":["bright","warm"])"));
  EXPECT_EQ(run_program({"report", "run"}, folder.path()).exit, 0);
}

TEST(Predict, AThresholdIsAProbability) {
  for (const char* threshold : {"1", "-0.1", "half"}) {
    const Outcome outcome = run_program({"predict", "--from", kReference, kReference + "/image.png", "--threshold", threshold});
    EXPECT_EQ(outcome.exit, 2);
    EXPECT_THAT(outcome.err, HasSubstr("is no probability"));
  }
  // Of weights that are no run's it asks for each class by itself.
  const Outcome outcome =
      run_program({"predict", "--from", kReference, kReference + "/image.png", "--threshold", "0.5", "--json"});
  EXPECT_TRUE(outcome.json().at(0).contains("tags"));
}

}  // namespace
}  // namespace tessera::cli
