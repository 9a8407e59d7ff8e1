// tessera fine-tune: the recipe that it makes of weights and images, and the run.

#include <gmock/gmock.h>

#include "cli/finished_run.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// run/ tells the classes of train/ and val/ apart.
class FineTune : public FinishedRun<FineTune> {
 protected:
  static const std::string& timm() {
    static const std::string path = testing::source_path("tests/references/timm_local_dir");
    return path;
  }
  static std::string recipe(std::vector<std::string> args) {
    args.insert(args.begin(), "fine-tune");
    args.emplace_back("--print-recipe");
    const Outcome outcome = tessera(args);
    EXPECT_EQ(outcome.exit, 0) << outcome.err;
    return outcome.out;
  }
};

TEST_F(FineTune, TakesModelSizeAndValuesFromTheWeights) {
  const std::string text = recipe({"train", "--from", timm()});
  EXPECT_THAT(text,
              AllOf(HasSubstr("source = \"part(folder(train), train, 20 %)\""), HasSubstr("width = 24\ndepth = 2\nheads = 2\n"),
                    HasSubstr("random_resized_crop(16, scale=[0.35, 1], interpolation=bilinear) | flip_lr | "
                              "normalise(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])\""),
                    HasSubstr("central_crop(16, 16) | normalise(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5])\"")));
  EXPECT_THAT(text, HasSubstr("every = \"1 epoch\"\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("dont_load = [\"head/.*\"]"), HasSubstr("schedules = [\"head/.* = one_cycle(0.01)\"]"),
                          HasSubstr("lr = \"one_cycle(0.001, start=10 %)\"")));
}

TEST_F(FineTune, OfARunOfTheSameClassesKeepsItsHead) {
  const std::string text = recipe({".", "--from", "run"});
  EXPECT_THAT(text, AllOf(HasSubstr("source = \"folder(./train)\""), HasSubstr("source = \"folder(./val)\""),
                          HasSubstr("from = \"run\""), HasSubstr("width = 16"), Not(HasSubstr("dont_load"))));
  // Without what is as it would be anyway.
  EXPECT_THAT(text, Not(HasSubstr("qkv_bias")));
}

TEST_F(FineTune, ValidationIsAShareOrOtherImages) {
  EXPECT_THAT(recipe({"train", "--from", "run", "--valid", "50 %"}), HasSubstr("part(folder(train), valid, 50 %)"));
  EXPECT_THAT(recipe({"train", "--from", "run", "--valid", "val"}),
              AllOf(HasSubstr("source = \"folder(train)\""), HasSubstr("source = \"folder(val)\"")));
  write_images(*folder_ / "set/Training", 5);
  write_images(*folder_ / "set/Validation", 2);
  EXPECT_THAT(recipe({"set", "--from", "run"}),
              AllOf(HasSubstr("source = \"folder(set/Training)\""), HasSubstr("source = \"folder(set/Validation)\"")));
  EXPECT_THAT(recipe({"part(folder(train), train, fold=0/2)", "--from", "run", "seed=3"}),
              AllOf(HasSubstr("part(part(folder(train), train, fold=0/2), valid, 20 %)"), HasSubstr("seed = 3")));
}

TEST_F(FineTune, TakesSeveralLabelsAnImage) {
  std::string table = "image,tags\n";
  for (const char* row :
       {"left/0.png,left pale", "left/1.png,left", "left/2.png,left pale", "right/0.png,right", "right/1.png,"})
    table += std::string("train/") + row + "\n";
  write_file(*folder_ / "tags.csv", table);
  const std::string text = recipe({"csv(tags.csv, labels=tags)", "--from", timm()});
  EXPECT_THAT(text,
              AllOf(HasSubstr("# 3 classes of"), HasSubstr("objective = { name = \"bce\" }"), HasSubstr("best = \"val/mAP\"")));
}

TEST_F(FineTune, ShowsTheRecipeAndRunsIt) {
  const std::vector<std::string> command = {"fine-tune", "train", "--from", timm(), "--workdir", "tuned", "total=2 epochs"};
  const Outcome outcome = tessera(command);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("# 2 classes of train learn from the weights of"),
                                 HasSubstr("\n# changed by the command: 'total=2 epochs'\n"),
                                 HasSubstr("of 19 parameters are those of"), HasSubstr("  val  step 2")));
  const Outcome predicted = tessera({"predict", "--from", "tuned", "val/left/0.png", "--json"});
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(tessera(command).err, HasSubstr("the run is finished"));
}

// What it printed is a recipe like any other.
TEST_F(FineTune, APrintedRecipeTrains) {
  write_file(*folder_ / "mine.toml", recipe({"train", "--from", timm()}));
  const Outcome outcome = tessera({"train", "mine.toml", "--workdir", "mine", "total=3 epochs"});
  EXPECT_EQ(outcome.exit, 0) << outcome.err;
}

// By the names and shapes of its arrays.
TEST_F(FineTune, AFileOfANamedModelIsEnough) {
  const std::vector<std::string> words{"train",
                                       "tiny.toml",
                                       "model={name=\"vit\", variant=\"test_vit\"}",
                                       "--workdir",
                                       "named",
                                       "data.pp=decode | resize(160) | normalise",
                                       "eval.val.data.pp=decode | resize(160) | normalise",
                                       "total=1 steps"};
  ASSERT_EQ(tessera(words).exit, 0);
  ASSERT_EQ(tessera({"export", "--from", "named", "--to", "named_timm"}).exit, 0);
  fs::create_directory(*folder_ / "files");
  fs::copy(*folder_ / "named_timm/model.safetensors", *folder_ / "files/some.safetensors");
  write_images(*folder_ / "others", 8);
  write_image(*folder_ / "others/third/0.png", 0, 3);
  write_image(*folder_ / "others/third/1.png", 0, 5);
  const std::string text = recipe({"others", "--from", "files/some.safetensors"});
  EXPECT_THAT(text, AllOf(HasSubstr("name = \"vit\"\nvariant = \"test_vit\""), HasSubstr("from = \"files/some.safetensors\""),
                          HasSubstr("random_resized_crop(160,"), HasSubstr("dont_load = [\"head/")));
  const Outcome tuned =
      tessera({"fine-tune", "others", "--from", "files/some.safetensors", "--workdir", "of_file", "total=3 epochs"});
  EXPECT_EQ(tuned.exit, 0) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("nothing beside the weights says how their images were prepared"));
}

TEST_F(FineTune, MistakesAreExplained) {
  const auto error = [](const std::vector<std::string>& args) {
    const Outcome outcome = tessera(args);
    EXPECT_EQ(outcome.exit, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error({"fine-tune", "--from", "run"}), HasSubstr("needs a folder of images"));
  EXPECT_THAT(error({"fine-tune", "train"}), HasSubstr("`--from` is missing"));
  EXPECT_THAT(error({"fine-tune", "train", "val", "--from", "run"}), HasSubstr("one word too many"));
  EXPECT_THAT(error({"fine-tune", "train", "--from", "nowhere"}), HasSubstr("`nowhere` does not exist"));
  EXPECT_THAT(error({"fine-tune", "train", "--from", timm() + "/model.safetensors"}),
              HasSubstr("does not say what model it is for"));
  EXPECT_THAT(error({"fine-tune", "photos", "--from", "run", "--valid", "0.2"}), HasSubstr("--valid \"20 %\""));
  EXPECT_THAT(error({"fine-tune", "train", "--from", "run", "--valid", "train"}),
              HasSubstr("`--valid` names the images that are trained on"));
  EXPECT_THAT(error({"fine-tune", "train", "--from", "run", "--print-recipe", "optimizer.lrr=3"}),
              HasSubstr("did you mean `optimizer.lr`?"));
  EXPECT_THAT(error({"fine-tune", "fake(images=8, classes=1)", "--from", "run"}), HasSubstr("a classifier needs two at least"));
  EXPECT_THAT(tessera({"fine-tune", "nowhere", "--from", "run"}).err, HasSubstr("the folder `nowhere` does not exist"));
}

}  // namespace
}  // namespace tessera::cli
