// Data as people have them: sets that lack a class, files that are no images, what `data convert` wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/metrics_lines.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnData : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "train", 8);
    for (int i = 0; i < 3; ++i) write_image(folder_ / "train/middle" / (std::to_string(i) + ".png"), 0, 20 + i);
    write_images(folder_ / "val", 4);
    write_file(folder_ / "tiny.toml", tiny_recipe());
  }
  Outcome run(const std::vector<std::string>& args) const { return run_program(args, folder_.path()); }
  Outcome train(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args{"train", "tiny.toml", "--workdir", "run"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  // The text at `key` of a section of the run's recipe.
  std::string recipe_value(const std::string& section, const std::string& key) const {
    const std::string text = read_file(folder_ / "run/recipe.toml"), before = "\n" + key + " = \"";
    const size_t at = text.find(before, text.find("[" + section + "]\n")) + before.size();
    return text.substr(at, text.find('"', at) - at);
  }

  TempFolder folder_;
};

// Labels are training's: left 0, middle 1, right 2.
TEST_F(OwnData, AnEvaluatorsFolderMayLackAClass) {
  const Outcome outcome = train({"eval.val.predictions=true"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  std::map<std::string, int> labels;
  std::istringstream lines(read_file(folder_ / "run/evals/val_000000006.jsonl"));
  for (std::string line; std::getline(lines, line);) ++labels[Json::parse(line)["label"].get<std::string>()];
  EXPECT_EQ(labels, (std::map<std::string, int>{{"left", 4}, {"right", 4}}));
  const Outcome again = run({"eval", "run/recipe.toml", "--from", "run", "--json"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("compared by number")));
}

// A model of one channel: trained, and exported to timm, whose file says so.
TEST_F(OwnData, ImagesOfOneChannel) {
  const std::string grey = "decode | resize(9) | central_crop(8) | grayscale | value_range(-1, 1)";
  const Outcome outcome =
      train({"data.pp=decode | random_crop(8) | grayscale | value_range(-1, 1)", "eval.val.data.pp=" + grey});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  ASSERT_EQ(run({"export", "--from", "run", "--to", "timm"}).exit, 0);
  const Json config = Json::parse(read_file(folder_ / "timm/config.json"));
  EXPECT_EQ(config["model_args"]["in_chans"], 1);
  EXPECT_EQ(config["pretrained_cfg"]["input_size"], (Json{1, 8, 8}));
  EXPECT_EQ(config["pretrained_cfg"]["mean"], (Json{0.5}));
  const auto logits = [&](const std::string& from) {
    const Outcome predicted = run({"predict", "--from", from, "--json", "--logits", "val/left/1.png"});
    EXPECT_EQ(predicted.exit, 0) << predicted.err;
    return predicted.json()[0]["logits"].get<std::vector<double>>();
  };
  EXPECT_THAT(logits("timm"), ::testing::Pointwise(::testing::DoubleNear(1e-5), logits("run")));

  const Outcome other =
      run({"train", "tiny.toml", "--workdir", "other", "data.pp=decode | random_crop(8) | grayscale | value_range(-1, 1)"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("eval.val.data.pp"), HasSubstr("makes images of 3 channels, and the model takes 1")));
  const Outcome means =
      run({"train", "tiny.toml", "--workdir", "other", "data.pp=decode | random_crop(8) | grayscale | normalise"});
  EXPECT_EQ(means.exit, 2);
  EXPECT_THAT(means.err, HasSubstr("one channel after grayscale"));
}

TEST_F(OwnData, AClassThatTrainingDoesNotKnowIsNamed) {
  write_image(folder_ / "val/upside_down/0.png", 0, 0);
  const Outcome outcome = train();
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("`upside_down`"), HasSubstr("eval.val.data.source"), HasSubstr("take out")));
}

TEST_F(OwnData, WhatConvertWroteHasItsClasses) {
  ASSERT_EQ(run({"data", "convert", "train", "--to", "tar", "--out", "shards"}).exit, 0);
  const Outcome outcome = train({"data.source=wds(shards/shards-train-*.tar)"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  const Json state = Json::parse(read_file(folder_ / "run/checkpoints/step_000000006/state.json"));
  EXPECT_EQ(state["state"]["class_names"], (Json{"left", "middle", "right"}));
}

TEST_F(OwnData, ConvertLeavesOutWhatIsNoImage) {
  const std::string image = read_file(folder_ / "train/left/0.png");
  write_file(folder_ / "train/left/cut.jpg", image.substr(0, image.size() - 30));
  write_file(folder_ / "train/left/readme.txt", "these are mine");
  for (const char* format : {"tar", "tfrecord"}) {
    SCOPED_TRACE(format);
    const Outcome outcome = run({"data", "convert", "train", "--to", format, "--out", format});
    EXPECT_EQ(outcome.exit, 3);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("left out: left/cut.jpg: "), HasSubstr("left out: left/readme.txt: "),
                                   HasSubstr("19 samples in 1 shard,")));
  }
}

// Weights that are used to other images than a recipe makes.
TEST_F(OwnData, FineTuningSaysWhatDiffersFromTheWeights) {
  const std::vector<std::string> tune{"model={name=\"vit\", width=24, depth=2, heads=2, patch=4, pool=\"gap\"}",
                                      "data.pp=decode | resize(16) | normalise",
                                      "eval.val.data.pp=decode | resize(16, interpolation=bicubic) | normalise",
                                      "model_init.from=" + testing::source_path("tests/references/timm_local_dir")};
  const Outcome outcome = train(tune);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("note: the weights are used to other images"), HasSubstr("values (normalise("),
                    HasSubstr("interpolation (bilinear there, bicubic here)"), HasSubstr("theirs for evaluation")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("size (")));
  std::vector<std::string> same = tune;
  same[1] = "data.pp=decode | resize(16) | value_range(-1, 1)";
  same[2] = "eval.val.data.pp=decode | resize(16) | value_range(-1, 1)";
  same.push_back("seed=4");
  std::vector<std::string> args{"train", "tiny.toml", "--workdir", "same"};
  args.insert(args.end(), same.begin(), same.end());
  EXPECT_THAT(run(args).err, Not(HasSubstr("other images")));
}

TEST_F(OwnData, ChainsComeFromTheWeightsWhereThatIsAsked) {
  const std::string weights = testing::source_path("tests/references/timm_local_dir");
  const std::vector<std::string> words{"model={name=\"vit\", width=24, depth=2, heads=2, patch=4, pool=\"gap\"}",
                                       "data.pp=from_weights", "eval.val.data.pp=from_weights"};
  std::vector<std::string> tune = words;
  tune.push_back("model_init.from=" + weights);
  const Outcome outcome = train(tune);
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("used to other images")));
  // The run keeps the chains themselves: another start does not ask the weights.
  const std::string theirs = recipe_value("eval.val.data", "pp"), own = recipe_value("data", "pp");
  EXPECT_THAT(theirs, HasSubstr("resize"));
  EXPECT_THAT(own, AllOf(HasSubstr("random_resized_crop(16, scale=[0.35, 1], interpolation="), HasSubstr("| flip_lr |")));
  EXPECT_EQ(own.substr(own.rfind('|')), theirs.substr(theirs.rfind('|'))) << "values as the weights have them";
  EXPECT_EQ(train(tune).exit, 0) << "it goes on";
  tune.insert(tune.begin(), {"data", "show", "tiny.toml", "--out", "sheet.png"});
  EXPECT_EQ(run(tune).exit, 0);

  EXPECT_THAT(train(words).err, AllOf(HasSubstr("`data.pp`"), HasSubstr("begins with no weights")));
  std::vector<std::string> silent = words;
  silent.push_back("model_init.from=" + weights + "/model.safetensors");
  const Outcome unknown = train(silent);
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, HasSubstr("says how their images are prepared"));
}

TEST_F(OwnData, EvaluatingOnOtherValuesIsNoted) {
  EXPECT_THAT(
      train({"eval.val.data.pp=decode | resize(8) | normalise"}).err,
      AllOf(HasSubstr("note: `eval.val.data.pp` scales values otherwise"), HasSubstr("normalise and value_range(-1, 1)")));
}

}  // namespace
}  // namespace tessera::cli
