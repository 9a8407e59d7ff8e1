// Runs that begin with the whole state of another one: `resume = "RUN@STEP"`.

#include <gmock/gmock.h>

#include "cli/finished_run.h"
#include "cli/metrics_lines.h"
#include "support/paths.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// run/ has checkpoints of steps 3 and 6, its last.
class OtherRun : public FinishedRun<OtherRun> {
 protected:
  static Outcome train(const std::string& workdir, std::vector<std::string> overrides) {
    std::vector<std::string> args = {"train", "--workdir", workdir, "tiny.toml"};
    args.insert(args.end(), overrides.begin(), overrides.end());
    return tessera(args);
  }
  static std::string state(const std::string& workdir, const std::string& step = "step_000000006") {
    return read_file(*folder_ / workdir / "checkpoints" / step / "state.safetensors");
  }
};

TEST_F(OtherRun, IsGoneOnFromWithTheBytesThatItHadItself) {
  const Outcome run = train("again", {"resume=run@3"});
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("begins at step 3 of 6, with the state of run@3"));
  EXPECT_EQ(state("again"), state("run"));
  Curves whole = timeless(curves_of(*folder_ / "run")), again = timeless(curves_of(*folder_ / "again"));
  for (auto& [name, curve] : whole) std::erase_if(curve, [](const auto& point) { return point.first <= 3; });
  std::erase_if(whole, [](const auto& curve) { return curve.second.empty(); });
  EXPECT_EQ(again["training_loss"], whole["training_loss"]);
  EXPECT_EQ(again["val/loss"], whole["val/loss"]);
  EXPECT_FALSE(again["training_loss"].empty());
}

// As a cool-down does: longer, with another schedule. The workdir's own state counts from then on.
TEST_F(OtherRun, IsGoneOnFromWithAnotherLengthAndSchedule) {
  const std::vector<std::string> longer = {"resume=run", "total=9 steps", "optimizer.lr=linear(5e-3)"};
  const Outcome run = train("longer", longer);
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("begins at step 6 of 9, with the state of run\n"));
  const Curves curves = curves_of(*folder_ / "longer");
  EXPECT_EQ(curves.at("training_loss").begin()->first, 8);
  EXPECT_EQ(curves.at("examples_seen").at(8), 32);
  const Outcome on = train("longer", {"resume=run", "total=12 steps", "optimizer.lr=linear(5e-3)"});
  ASSERT_EQ(on.exit, 0) << on.err;
  EXPECT_THAT(on.err, HasSubstr("continues longer from step 9 of 12"));
}

// docs/splits.md: a run on a part of a folder resumes like one on the whole, and is refused where files were added.
TEST_F(OtherRun, OnAPartIsGoneOnFromAndKnowsItsFiles) {
  fs::copy(*folder_ / "train", *folder_ / "own", fs::copy_options::recursive);
  const std::vector<std::string> parts = {"data.source=part(folder(own), train, fold=1/3)",
                                          "eval.val.data.source=part(folder(own), valid, fold=1/3)"};
  const Outcome whole = train("part", parts);
  ASSERT_EQ(whole.exit, 0) << whole.err;
  std::vector<std::string> resumed = parts;
  resumed.push_back("resume=part@3");
  const Outcome again = train("part_again", resumed);
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(state("part_again"), state("part"));
  EXPECT_NE(state("part"), state("run"));

  for (const char* file : {"another.png", "one more.png"}) write_image(*folder_ / "own" / "left" / file, 0, 7);
  const Outcome other = train("part", parts);
  EXPECT_EQ(other.exit, 3) << other.err;
  EXPECT_THAT(other.err, HasSubstr("data of"));
}

TEST_F(OtherRun, WhatCannotBeGoneOnFromIsSaid) {
  const auto error = [](std::vector<std::string> overrides, int exit = 2) {
    const Outcome run = train("none", std::move(overrides));
    EXPECT_EQ(run.exit, exit) << run.err;
    fs::remove_all(*folder_ / "none");
    return run.err;
  };
  EXPECT_THAT(error({"resume=run@4"}),
              AllOf(HasSubstr("`run` has no checkpoint of step 4\n  --> resume"), HasSubstr("steps 3, 6")));
  EXPECT_THAT(error({"resume=run"}), HasSubstr("`run` is at step 6, and this run ends after step 6"));
  EXPECT_THAT(error({"resume=nowhere"}),
              AllOf(HasSubstr("`nowhere` does not exist\n  --> resume"), HasSubstr("WORKDIR@STEP"), Not(HasSubstr(".pth"))));
  EXPECT_THAT(error({"resume=" + testing::source_path("tests/references/timm_local_dir")}),
              HasSubstr("is not a checkpoint of ours\n  --> resume"));
  EXPECT_THAT(error({"resume=run@3", "model.width=32"}, 3), AllOf(HasSubstr("step_000000003"), Not(HasSubstr("bug"))));
  EXPECT_THAT(error({"resume=run@3", "optimizer.name=sgd"}, 3), AllOf(HasSubstr("step_000000003"), Not(HasSubstr("bug"))));
  EXPECT_THAT(error({"resume=run@3", "model_init.from=run"}), HasSubstr("both say which weights come first"));
}

TEST_F(OtherRun, OneThatIsNotThereLeavesNoDirectory) {
  for (const char* word : {"resume=nowhere", "resume=run@4", "model_init.from=nowhere.pth", "model_init.from=nowhere:params"}) {
    EXPECT_EQ(train("none", {word}).exit, 2) << word;
    EXPECT_FALSE(fs::exists(*folder_ / "none")) << word;
  }
}

TEST_F(OtherRun, AStepOfARunIsNamedAnywhere) {
  const Outcome eval = tessera({"eval", "tiny.toml", "--from", "run@3"});
  EXPECT_EQ(eval.exit, 0) << eval.err;
  EXPECT_THAT(eval.out + eval.err, HasSubstr("step_000000003"));
  const Outcome predict = tessera({"predict", "--from", "run@5", "val/left/0.png"});
  EXPECT_EQ(predict.exit, 2);
  EXPECT_THAT(predict.err, HasSubstr("`run` has no checkpoint of step 5"));
}

}  // namespace
}  // namespace tessera::cli
