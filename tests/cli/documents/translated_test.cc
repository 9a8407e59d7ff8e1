// tessera timm and tessera vit10b: command lines of other trainers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TranslatedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_images(folder_ / "photos/train", 8);
    write_images(folder_ / "photos/val", 4);
  }
  Outcome run(const std::vector<std::string>& words) const { return run_program(words, folder_.path()); }
  // A model and a run that are small.
  Outcome timm(std::vector<std::string> more) const {
    std::vector<std::string> words = {
        "timm",  "photos", "--model", "vit_tiny_patch16_224", "--img-size", "16",      "--epochs", "2", "-b", "4", "--opt",
        "adamw", "--lr",   "1e-3",    "--warmup-epochs",      "1",          "--no-aug"};
    words.insert(words.end(), {"model.depth=1", "model.width=16", "model.heads=2", "monitor.sinks=[]"});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  TempFolder folder_;
};

TEST_F(TranslatedTest, TimmTrainsAndContinuesInItsDirectory) {
  const Outcome first = timm({"-j", "2", "--output", "out", "--experiment", "first", "--model-ema"});
  ASSERT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("batch 4 = 4 a device x 1 device (--devices)"), HasSubstr("ignored: --workers"),
                               HasSubstr("val_ema")));
  EXPECT_THAT(first.out, HasSubstr("out/first/checkpoints/step_000000008"));
  const std::string recipe = read_file(folder_ / "out/first/recipe.toml");
  EXPECT_THAT(recipe, AllOf(HasSubstr("depth = 1"), HasSubstr("source = \"folder(photos/val)\""),
                            HasSubstr("best = \"val_ema/prec@1\"")));
  const Outcome again = timm({"-j", "2", "--output", "out", "--experiment", "first", "--model-ema"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the run is finished"));
  // Without a directory it is a run like any other.
  const Outcome other = timm({"--devices", "2"});
  EXPECT_EQ(other.exit, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("batch 8 = 4 a device x 2 devices (--devices)"));
  EXPECT_THAT(other.out, HasSubstr("runs/vit_tiny_patch16_224-1/"));
}

TEST_F(TranslatedTest, APrintedRecipeTrainsTheSame) {
  const Outcome printed = timm({"--print-recipe"});
  ASSERT_EQ(printed.exit, 0) << printed.err;
  EXPECT_EQ(printed.err, "");
  write_file(folder_ / "made.toml", printed.out);
  ASSERT_EQ(run({"train", "made.toml", "--workdir", "a"}).exit, 0);
  ASSERT_EQ(timm({"--workdir", "b"}).exit, 0);
  EXPECT_EQ(read_file(folder_ / "a/recipe.toml"), read_file(folder_ / "b/recipe.toml"));
  EXPECT_EQ(read_file(folder_ / "a/checkpoints/step_000000008/state.safetensors"),
            read_file(folder_ / "b/checkpoints/step_000000008/state.safetensors"));
}

TEST_F(TranslatedTest, MistakesAreNamed) {
  const Outcome unknown = timm({"--mixupp", "0.1"});
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("unknown argument `--mixupp`"), HasSubstr("did you mean `--mixup`?")));
  const Outcome setting = timm({"model.widht=16"});
  EXPECT_EQ(setting.exit, 2);
  EXPECT_THAT(setting.err, HasSubstr("did you mean `model.width`?"));
  const Outcome printed = timm({"--print-recipe", "modell.width=16"});  // which no data are read for
  EXPECT_EQ(printed.exit, 2);
  EXPECT_EQ(printed.out, "");
  EXPECT_THAT(printed.err, AllOf(HasSubstr("error: unknown key `modell.width`\n  --> override modell.width=16\n"),
                                 HasSubstr("did you mean `model.width`?  All keys: tessera help model\n")));
  EXPECT_THAT(timm({"--print-recipe", "seed=7"}).out, AllOf(StartsWith("# batch "), HasSubstr("seed = 7\n")));
  EXPECT_THAT(timm({"--print-recipe", "bs=16"}).err, HasSubstr("did you mean `data.batch`?"));
  EXPECT_THAT(timm({"--print-recipe", "epochs=16"}).err, HasSubstr("did you mean `total`, as total = \"90 epochs\"?"));
  EXPECT_THAT(timm({"--print-recipe", "eval.val.data.pq=x"}).err, HasSubstr("did you mean `eval.val.data.pp`?"));
  EXPECT_THAT(timm({"--print-recipe", "wandb=true"}).err, HasSubstr("monitor.sinks"));
  for (const char* known : {"eval.second.type=knn", "eval.val={ batch = 4 }", "optimizer=sgd", "data.limits.max_pixels=9",
                            "data.mix.photos.weight=2", "objective.label_smoothing=0.2", "mesh=\"data=2\""}) {
    const Outcome taken = timm({"--print-recipe", known});
    EXPECT_EQ(taken.exit, 0) << known << ": " << taken.err;
  }
  EXPECT_EQ(run({"timm", "--data-dir", "absent"}).exit, 3);
  EXPECT_EQ(run({"vit10b", "--embed_dims", "3"}).exit, 2);
}

TEST_F(TranslatedTest, HelpAndListsAreThere) {
  EXPECT_THAT(run({"timm", "--help"}).out,
              AllOf(HasSubstr("--world-size N"), HasSubstr("--print-recipe"), HasSubstr("--workdir")));
  EXPECT_THAT(run({"timm", "--list"}).out, AllOf(HasSubstr("## Approximated, and how"), HasSubstr("| `--batch-size`, `-b` |")));
  EXPECT_THAT(run({"vit10b", "--list"}).out, HasSubstr("| `--embed_dim` |"));
}

TEST_F(TranslatedTest, Vit10bTrains) {
  const Outcome outcome =
      run({"vit10b", "--data_dir",      "photos", "--ckpt_dir",     "vit", "--image_size", "16", "--patch_size",
           "8",      "--embed_dim",     "16",     "--num_heads",    "2",   "--num_blocks", "2",  "--batch_size",
           "4",      "--num_epochs",    "2",      "--warmup_steps", "2",   "--devices",    "2",  "--num_workers",
           "8",      "monitor.sinks=[]"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ignored: --num_workers"), HasSubstr("val  step 8"), Not(HasSubstr("warning"))));
  EXPECT_THAT(outcome.out, HasSubstr("vit/checkpoints/step_000000008"));
}

}  // namespace
}  // namespace tessera::cli
