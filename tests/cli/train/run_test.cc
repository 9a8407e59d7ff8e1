// From a folder of images to weights and their uses, through the program: train, eval, predict, export, import.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <set>
#include <thread>

#include "cli/finished_run.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// A finished run, made once.
class Run : public FinishedRun<Run> {
 protected:
  static Json logits(const std::string& from) {
    return tessera({"predict", "--json", "--logits", "val", "--from", from}).json().at(3).at("logits");
  }
};

TEST_F(Run, EndsBySayingWhereEverythingIs) {
  ASSERT_EQ(trained_->exit, 0) << trained_->err;
  EXPECT_EQ(trained_->out,
            "checkpoint  run/checkpoints/step_000000006\n"
            "metrics     run/metrics.jsonl\n"
            "plot        run/plot.svg\n"
            "report      run/report/index.html\n"
            "next        tessera predict --from run IMAGE…\n");
  for (const char* path : {"run/checkpoints/step_000000006/COMMIT", "run/metrics.jsonl", "run/plot.svg", "run/recipe.toml"}) {
    EXPECT_TRUE(fs::exists(*folder_ / path)) << path;
  }
  EXPECT_THAT(trained_->err, HasSubstr("val  step 3  top1"));
}

// Eight files, all the same picture. Made-up images are meant to be.
TEST_F(Run, WarnsOfBatchesOfOneImage) {
  for (int i = 0; i < 4; ++i) {
    for (const char* name : {"left", "right"}) write_image(*folder_ / "same" / name / (std::to_string(i) + ".png"), 0, 0);
  }
  const Outcome same = tessera({"train", "tiny.toml", "data.source=folder(same)", "--workdir", "same_run"});
  EXPECT_EQ(same.exit, 0) << same.err;
  EXPECT_THAT(same.err, HasSubstr("warning: all images of a batch are the same, at step 2 and the line before; look at them"));
  EXPECT_THAT(read_file(*folder_ / "same_run/report/index.html"), HasSubstr("All images of a batch are the same"));
  const Outcome fake =
      tessera({"train", "tiny.toml", "data.source=fake(images=8, classes=2)", "eval={}", "--workdir", "fake_run"});
  EXPECT_EQ(fake.exit, 0) << fake.err;
  for (const char* run : {"run", "fake_run"}) {
    EXPECT_THAT(read_file(*folder_ / run / "metrics.jsonl"), Not(HasSubstr("images_alike"))) << run;
  }
}

// What the terminal got stands in log.txt too, after the time, start after start.
TEST_F(Run, LogHasWhatTheTerminalGot) {
  const auto lines_of = [](const std::string& file) {
    std::istringstream lines(read_file(*folder_ / file));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_THAT(line, ContainsRegex("^20[0-9-]+T[0-9:.]+Z "));
      text += line.substr(line.find(' ') + 1) + "\n";
    }
    return text;
  };
  const std::vector<std::string> args = {"train", "tiny.toml", "--workdir", "logged", "--color", "always"};
  const Outcome first = run_program({"train", "tiny.toml", "--workdir", "logged"}, folder_->path());
  ASSERT_EQ(first.exit, 0) << first.err;
  const std::string start = "start    tessera [0-9.]+( \\([0-9a-f]+\\))?: tessera train tiny.toml --workdir logged";
  EXPECT_THAT(lines_of("logged/log.txt"), ContainsRegex("^" + start + "\n"));
  EXPECT_THAT(lines_of("logged/log.txt"), EndsWith("\n" + first.err));

  const Outcome again = run_program(args, folder_->path());
  EXPECT_THAT(again.err, HasSubstr("\033["));
  EXPECT_THAT(lines_of("logged/log.txt"), ContainsRegex(start + " --color always\nnote: the run is finished: step 6 of 6\n$"));

  const Outcome elsewhere =
      tessera({"train", "tiny.toml", "optimizer.lr=1e30", "--workdir", "diverged", "--log-file", "logs/a.log"});
  EXPECT_EQ(elsewhere.exit, 5);
  EXPECT_THAT(lines_of("logs/a.log"), EndsWith("\n" + elsewhere.err)) << "with the error that ended it";
  EXPECT_FALSE(fs::exists(*folder_ / "diverged/log.txt"));
  EXPECT_FALSE(lines_of("logs/a.log").empty());
}

TEST_F(Run, ListsItsParametersOnlyOnRequest) {
  EXPECT_THAT(trained_->err, AllOf(HasSubstr(" parameters in "), Not(HasSubstr("head/"))));
  const Outcome listed = tessera({"train", "tiny.toml", "--parameters", "--workdir", "listed", "--no-report"});
  EXPECT_THAT(listed.err, AllOf(HasSubstr(" parameters in "), HasSubstr("head/"), HasSubstr("mean")));
}

TEST_F(Run, IsNotTrainedAgain) {
  const Outcome again = tessera({"train", "tiny.toml", "--workdir", "run"});
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("note: the run is finished: step 6 of 6"));
  EXPECT_EQ(again.out, trained_->out);
}

TEST_F(Run, RefusesAnotherRecipe) {
  const Outcome other = tessera({"train", "tiny.toml", "optimizer.lr=1e-3", "--workdir=run"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_EQ(other.out, "");
  EXPECT_THAT(other.err, StartsWith("error: the workdir `run` belongs to another recipe\n"));
  EXPECT_THAT(other.err, HasSubstr("optimizer.lr"));
}

TEST_F(Run, GoesIntoANumberedFolderWhenNoneIsNamed) {
  const Outcome first = tessera({"train", "tiny.toml", "total=1 step", "checkpoint.every=1 step"});
  EXPECT_EQ(first.exit, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("runs/tiny-1/checkpoints/step_000000001"));
  EXPECT_THAT(read_file(*folder_ / "runs/tiny-1/recipe.toml"), HasSubstr("total = \"1 step\""));
}

// The same command again, without --workdir, after a signal.
TEST_F(Run, AnUnfinishedOneOfTheSameRecipeGoesOn) {
  TempFolder folder;
  fs::create_directory_symlink(folder_->path() / "train", folder / "train");
  fs::create_directory_symlink(folder_->path() / "val", folder / "val");
  write_file(folder / "tiny.toml", tiny_recipe());
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.toml", "--no-report"});
    return run_program(more, folder.path());
  };
  // Stopped once it has begun.
  const auto stopped = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.toml", "total=1000000 steps"});
    RunningProgram program(more, folder.path());
    while (program.running() && program.err().find("  loss ") == std::string::npos) std::this_thread::yield();
    program.send(SIGTERM);
    return program.wait();
  };
  EXPECT_EQ(stopped({}).exit, 75);
  const Outcome again = stopped({});
  EXPECT_EQ(again.exit, 75);
  EXPECT_THAT(again.err,
              HasSubstr("note: `runs/tiny-1` has this recipe and is not finished, so it goes on; --new starts afresh"));
  EXPECT_THAT(again.err, HasSubstr("continues runs/tiny-1 from step"));
  EXPECT_THAT(train({}).out, HasSubstr("runs/tiny-2/")) << "another length";
  EXPECT_THAT(train({}).out, HasSubstr("runs/tiny-3/")) << "the last one is finished";
  EXPECT_THAT(train({"seed=4"}).out, HasSubstr("runs/tiny-4/")) << "another recipe";
  EXPECT_THAT(stopped({}).err, HasSubstr("continues runs/tiny-1 from step")) << "though others came since";
  EXPECT_EQ(stopped({"--new"}).exit, 75);
  EXPECT_TRUE(fs::exists(folder / "runs/tiny-5/checkpoints"));
  EXPECT_THAT(stopped({}).err, HasSubstr("continues runs/tiny-5 from step")) << "the newest";
  const Outcome both = train({"--new", "--workdir", "x"});
  EXPECT_EQ(both.exit, 2);
  EXPECT_THAT(both.err, HasSubstr("--new chooses a directory itself"));
}

// As the help of the error says.
TEST_F(Run, GoesOnWithAHigherLimitOfUnreadableFiles) {
  TempFolder folder;
  write_images(folder / "train", 6);
  write_images(folder / "val", 5);
  for (const char* name : {"a.png", "b.png"}) write_file(folder / "val/left" / name, "no image");
  write_file(folder / "tiny.toml", tiny_recipe());
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "tiny.toml", "--no-report", "--workdir", "run", "checkpoint.every=1 step"});
    return run_program(more, folder.path());
  };
  const Outcome ended = train({});
  EXPECT_EQ(ended.exit, 3);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("2 of the 12 samples of `val` can't be read"), HasSubstr("'eval.val.data.max_bad=50 %'")));
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
      if (fs::exists(entry.path() / "COMMIT")) found.insert(Json::parse(read_file(entry.path() / "COMMIT"))["run"]);
    }
    return found;
  };
  const std::set<std::string> before = names();
  const Outcome more = train({"eval.val.data.max_bad=50 %"});
  EXPECT_EQ(more.exit, 0) << more.err;
  EXPECT_THAT(more.err, AllOf(HasSubstr("continues"), Not(HasSubstr("another run"))));
  EXPECT_EQ(names(), before) << "the name by which older checkpoints are removed";
}

TEST_F(Run, GoesBackInADirectoryOfThisMachineAlone) {
  fs::copy(*folder_ / "run", *folder_ / "back", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const Outcome back = tessera({"train", "tiny.toml", "--workdir", "back", "--from-step", "3"});
  EXPECT_EQ(back.exit, 0) << back.err;
  EXPECT_THAT(back.err, AllOf(HasSubstr("continues back from step 3 of 6"),
                              HasSubstr("before step 6, whose checkpoint is `back/checkpoints/step_000000006.later` now")));
  const Outcome nowhere = tessera({"train", "tiny.toml", "--from-step", "3"});
  EXPECT_EQ(nowhere.exit, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("help: add --workdir DIR"));
  const Outcome bucket = tessera({"train", "tiny.toml", "--from-step", "3", "--workdir", "s3://bucket/run"});
  EXPECT_EQ(bucket.exit, 2);
  EXPECT_THAT(bucket.err, HasSubstr("resume=RUN@STEP"));
}

TEST_F(Run, OneThatTrainsNowIsLeftAlone) {
  TempFolder folder;
  fs::create_directory_symlink(folder_->path() / "train", folder / "train");
  fs::create_directory_symlink(folder_->path() / "val", folder / "val");
  write_file(folder / "tiny.toml", tiny_recipe());
  RunningProgram first({"train", "tiny.toml", "total=1000000 steps"}, folder.path());
  while (first.running() && first.err().find("  loss ") == std::string::npos) std::this_thread::yield();
  RunningProgram second({"train", "tiny.toml", "total=1000000 steps"}, folder.path());
  while (second.running() && second.err().find("  loss ") == std::string::npos) std::this_thread::yield();
  EXPECT_TRUE(first.running() && second.running()) << first.err() << second.err();
  EXPECT_TRUE(fs::exists(folder / "runs/tiny-2/recipe.toml"));
}

TEST_F(Run, IsContinuedByTheCommandThatItNamesWhenItIsStopped) {
  // Far too long to end by itself.
  const std::vector<std::string> args = {"train",     "tiny.toml", "total=100000 epochs", "--devices", "2",
                                         "--workdir", "long",      "--no-report"};
  RunningProgram program(args, folder_->path());
  while (program.running() && !fs::exists(*folder_ / "long/metrics.jsonl")) ::usleep(10'000);
  program.send(SIGTERM);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.exit, 75);
  EXPECT_THAT(
      stopped.err,
      ContainsRegex("stopped by SIGTERM after step [0-9,]+ of 300,000, which is saved. "
                    "Continue: tessera train tiny.toml 'total=100000 epochs' --devices 2 --no-report --workdir long\n$"));
  EXPECT_THAT(stopped.out, StartsWith("checkpoint  long/checkpoints/step_0000"));
  EXPECT_THAT(stopped.out, Not(HasSubstr("next")));
}

TEST_F(Run, EvalGivesTheScoresOfTheRun) {
  // As the end of training of other models suggests it.
  EXPECT_EQ(tessera({"eval", "run/recipe.toml", "--from", "run"}).exit, 0);
  const Outcome own = tessera({"eval", "--from", "run@6", "eval.val.batch=5"});
  EXPECT_EQ(own.exit, 0) << own.err;
  EXPECT_THAT(own.err, HasSubstr("the run's own, run/recipe.toml"));
  EXPECT_THAT(tessera({"eval", "--from", "runs/none"}).err, HasSubstr("`runs/none` does not exist"));
  EXPECT_THAT(tessera({"eval", "tiny", "--from", "run"}).err, HasSubstr("did you mean `tiny.toml`?"));
  EXPECT_THAT(tessera({"eval", "--from=~/run"}).err, HasSubstr("begins with ~"));
  EXPECT_THAT(tessera({"eval", "--from", "timm/resnet50.a1_in1k"}).err, HasSubstr("tessera eval needs a recipe"));
  EXPECT_THAT(tessera({"eval", "--from", "train"}).err, HasSubstr("tessera eval needs a recipe"));
  const Outcome outcome = tessera({"eval", "tiny.toml", "--from", "run", "--json"});
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const Json scores = outcome.json().at(0);
  EXPECT_EQ(scores["from"], "run/checkpoints/step_000000006");
  EXPECT_EQ(scores["val/count"], 10);
  EXPECT_EQ(scores["val/skipped"], 0);
  std::istringstream lines(read_file(*folder_ / "run/metrics.jsonl"));
  Json last;
  for (std::string line; std::getline(lines, line);) last = Json::parse(line);
  EXPECT_EQ(last["step"], 6);
  EXPECT_EQ(scores["val/prec@1"], last["val/prec@1"]);
  const Outcome kappa = tessera({"eval", "tiny.toml", "--from", "run", "eval.val.metrics=[\"cohen_kappa\"]"});
  EXPECT_THAT(kappa.out, ContainsRegex(" cohen_kappa -?[0-9.]+   ")) << kappa.err;
  EXPECT_EQ(scores["val/loss"].get<double>(), last["val/loss"].get<double>());

  // Whatever the batch; and without the training images.
  fs::rename(*folder_ / "train", *folder_ / "away");
  const Json other = tessera({"eval", "--json", "tiny.toml", "eval.val.batch=7", "--from", "run"}).json().at(0);
  fs::rename(*folder_ / "away", *folder_ / "train");
  EXPECT_EQ(other["val/prec@1"], scores["val/prec@1"]);
  EXPECT_NEAR(other["val/loss"], scores["val/loss"], 1e-5);
  EXPECT_THAT(tessera({"eval", "tiny.toml", "--from", "run", "--predictions", "said"}).out,
              AllOf(HasSubstr("top-1"), Not(HasSubstr("top-5"))));
  const std::string said = read_file(*folder_ / "said/val.jsonl");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 10);
  EXPECT_THAT(said, HasSubstr("\"predicted\":\""));
}

// Many checkpoints into one table, which is added to.
TEST_F(Run, EvalScoresManyCheckpointsIntoATable) {
  const std::vector<std::string> words{"eval", "tiny.toml", "--from", "run", "--steps", "all", "--csv", "scores.csv", "--json"};
  const Outcome outcome = tessera(words);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  ASSERT_EQ(outcome.json().size(), 2) << "steps 3 and 6";
  std::vector<std::string> lines;
  std::istringstream text(read_file(*folder_ / "scores.csv"));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0], "run,step,weights,recipe,val/prec@1,val/prec@5,val/loss,val/count,val/skipped");
  EXPECT_THAT(lines[1], StartsWith("run,3,raw,tiny.toml,"));
  EXPECT_THAT(lines[2], StartsWith("run,6,raw,tiny.toml,"));
  const Json last = outcome.json().back();
  EXPECT_THAT(lines[2],
              HasSubstr(fmt::format(",{},1,{},10,0", last["val/prec@1"].get<double>(), last["val/loss"].get<double>())));

  // A row that is lost, as by a kill, is computed again, and no other.
  const std::string whole = read_file(*folder_ / "scores.csv");
  write_file(*folder_ / "scores.csv", lines[0] + "\n" + lines[2] + "\n");
  const Outcome again = tessera(words);
  EXPECT_EQ(again.json().size(), 1);
  EXPECT_EQ(again.json().at(0)["from"], "run/checkpoints/step_000000003");
  EXPECT_THAT(again.err, HasSubstr("1 of 2 checkpoints are in scores.csv already, and are not scored again"));
  EXPECT_EQ(read_file(*folder_ / "scores.csv"), whole);
  // A checkpoint is the same however it is named; another key makes a row of its own.
  EXPECT_TRUE(tessera({"eval", "tiny.toml", "--from", "run@3", "--from", "run/checkpoints/step_000000006", "--from", "run",
                       "--csv", "scores.csv", "--json"})
                  .json()
                  .empty());
  EXPECT_EQ(tessera({"eval", "tiny.toml", "eval.val.batch=7", "--from", "run", "--csv", "scores.csv"}).exit, 0);
  EXPECT_THAT(read_file(*folder_ / "scores.csv"), HasSubstr("\nrun,6,raw,tiny.toml eval.val.batch=7,"));

  // One that can't be read is named, and the others are scored.
  fs::copy(*folder_ / "run", *folder_ / "torn", fs::copy_options::recursive);
  fs::resize_file(*folder_ / "torn/checkpoints/step_000000003/state.safetensors", 100);
  const Outcome torn = tessera({"eval", "tiny.toml", "--from", "torn", "--steps", "3,6", "--csv", "scores.csv", "--json"});
  EXPECT_EQ(torn.exit, 3);
  EXPECT_EQ(torn.json().size(), 1);
  EXPECT_THAT(torn.err, HasSubstr("passed over torn@3: "));
}

TEST_F(Run, EvalNamesMistakesAboutCheckpoints) {
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "tiny.toml"});
    const Outcome outcome = tessera(more);
    EXPECT_NE(outcome.exit, 0);
    return outcome.err;
  };
  EXPECT_THAT(error({"--from", "run", "--steps", "4"}), HasSubstr("3"));
  EXPECT_THAT(error({"--from", "run", "--steps", "last"}), HasSubstr("`last` is no step"));
  EXPECT_THAT(error({"--from", "run@3", "--steps", "all"}), HasSubstr("is no run with checkpoints"));
  EXPECT_THAT(error({"--from", "run", "--steps", "all", "--predictions", "out"}),
              HasSubstr("--predictions is of one checkpoint"));
  EXPECT_THAT(error({"--from", "run", "--csv", "run/summary.csv"}), HasSubstr("is no table of scores"));
  EXPECT_THAT(error({}), HasSubstr("--from"));
}

#ifdef TESSERA_HAS_PYARROW
// The same numbers as floats, whatever they were printed as.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<float>() == b.get<float>();
  if (!a.is_array() || !b.is_array()) return a == b;
  return std::ranges::equal(a, b, same);
}

TEST_F(Run, PyarrowReadsPredictions) {
  const std::vector<std::string> words = {"eval", "tiny.toml", "--from", "run", "--predictions", "table"};
  ASSERT_EQ(tessera(words).exit, 0);
  std::vector<std::string> as_parquet = words;
  as_parquet.push_back("eval.val.predictions_format=parquet");
  const Outcome outcome = tessera(as_parquet);
  ASSERT_EQ(outcome.exit, 0) << outcome.err;
  const fs::path rows = *folder_ / "table/rows.jsonl";
  const std::string script =
      "import json, sys, pyarrow.parquet as p\n"
      "for row in p.read_table(sys.argv[1]).to_pylist(): print(json.dumps(row))";
  const std::string command = fmt::format("'{}' -c '{}' '{}' > '{}'", testing::python_path(), script,
                                          (*folder_ / "table/val.parquet").string(), rows.string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::istringstream wanted(read_file(*folder_ / "table/val.jsonl")), found(read_file(rows));
  int64_t count = 0;
  for (std::string want, got; std::getline(wanted, want); ++count) {
    ASSERT_TRUE(std::getline(found, got)) << count;
    const Json line = Json::parse(want), row = Json::parse(got);
    EXPECT_GT(line.size(), 5u);
    ASSERT_EQ(row.size(), line.size()) << got;
    for (const auto& [key, value] : line.items()) EXPECT_TRUE(same(row.at(key), value)) << want << "\n" << got;
  }
  EXPECT_EQ(count, 10);
}
#endif

TEST_F(Run, EvalRefusesDataOfOtherClasses) {
  fs::create_directories(*folder_ / "other");
  for (const char* name : {"a", "b", "c"}) write_image(*folder_ / "other" / name / "x.png", 0, 1);
  const Outcome outcome = tessera({"eval", "tiny.toml", "--from", "run", "eval.val.data.source=folder(other)"});
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.err, HasSubstr("`other` has 3 classes, and the model has 2"));
}

TEST_F(Run, ExportAndImportKeepEveryLogit) {
  const Outcome exported = tessera({"export", "--to", "timm", "--from", "run"});
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_EQ(exported.out, "timm\n");
  const Json config = Json::parse(read_file(*folder_ / "timm/config.json"));
  EXPECT_EQ(config["label_names"], Json({"left", "right"}));
  EXPECT_EQ(config["pretrained_cfg"]["crop_mode"], "squash");
  EXPECT_EQ(config["pretrained_cfg"]["mean"], Json({0.5, 0.5, 0.5}));
  EXPECT_EQ(logits("timm"), logits("run"));

  const Outcome imported = tessera({"import", "tiny.toml", "--from", "timm", "--to", "imported"});
  ASSERT_EQ(imported.exit, 0) << imported.err;
  EXPECT_EQ(imported.out, "imported/checkpoints/step_000000000\n");
  EXPECT_EQ(logits("imported"), logits("run"));
  ASSERT_EQ(tessera({"import", "--from", "timm/model.safetensors", "tiny.toml", "--to", "from_file"}).exit, 0);
  EXPECT_EQ(logits("from_file/checkpoints/step_000000000"), logits("run"));

  const Outcome own = tessera({"import", "tiny.toml", "--from", "run", "--to", "from_run"});
  ASSERT_EQ(own.exit, 0) << own.err;
  EXPECT_EQ(logits("from_run"), logits("run"));

  const Outcome over = tessera({"import", "tiny.toml", "--from", "timm", "--to", "imported"});
  EXPECT_EQ(over.exit, 2);
  EXPECT_THAT(over.err, HasSubstr("`imported` is there already"));
}

TEST_F(Run, ExportsHaveChecksumsAndThoseOfOthersAreReplacedOnlyOnRequest) {
  const std::vector<std::string> words = {"export", "--from", "run", "--to", "summed"};
  ASSERT_EQ(tessera(words).exit, 0);
  const auto sums_fit = [](const std::string& directory, const std::string& list) {
    return std::system(("cd '" + (*folder_ / directory).string() + "' && sha256sum --quiet --strict -c " + list).c_str()) == 0;
  };
  EXPECT_TRUE(sums_fit("summed", "SHA256SUMS"));
  EXPECT_EQ(Json::parse(read_file(*folder_ / "summed/export.json"))["format"], "timm");
  EXPECT_EQ(Json::parse(read_file(*folder_ / "summed/export.json"))["step"], 6);
  const Outcome again = tessera(words);
  EXPECT_EQ(again.exit, 0) << again.err;
  EXPECT_TRUE(sums_fit("summed", "SHA256SUMS"));
  const Outcome other = tessera({"export", "--from", "run", "--to", "summed", "--format", "stablehlo"});
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("`summed` is there already"), HasSubstr("another format"), HasSubstr("--overwrite")));

  write_file(*folder_ / "summed/config.json", read_file(*folder_ / "summed/config.json") + " ");
  const Outcome changed = tessera({"predict", "--from", "summed", "val/left/0.png"});
  EXPECT_EQ(changed.exit, 3);
  EXPECT_THAT(changed.err, AllOf(HasSubstr("`summed/config.json` is damaged or was changed"), HasSubstr("SHA256SUMS")));
  const Outcome kept = tessera(words);
  EXPECT_EQ(kept.exit, 2);
  EXPECT_THAT(kept.err, AllOf(HasSubstr("`summed` was changed since its export"), HasSubstr("--overwrite")));

  std::vector<std::string> over = words;
  over.push_back("--overwrite");
  ASSERT_EQ(tessera(over).exit, 0);
  EXPECT_TRUE(sums_fit("summed", "SHA256SUMS"));
  EXPECT_EQ(logits("summed"), logits("run"));
  write_file(*folder_ / "summed/README.md", "mine");
  EXPECT_EQ(tessera(over).exit, 2);
  EXPECT_EQ(read_file(*folder_ / "summed/README.md"), "mine");

  const std::vector<std::string> plain = {"export", "--plain", "--from", "run", "--to", "summed_file/plain.safetensors"};
  ASSERT_EQ(tessera(plain).exit, 0);
  EXPECT_TRUE(sums_fit("summed_file", "plain.safetensors.sha256"));
  EXPECT_EQ(tessera(plain).exit, 0);
  EXPECT_TRUE(sums_fit("summed_file", "plain.safetensors.sha256"));
  fs::remove(*folder_ / "summed_file/plain.safetensors.export.json");
  EXPECT_EQ(tessera(plain).exit, 2);
}

TEST_F(Run, ExportPlainIsOneFileOfOurOwnNames) {
  const Outcome exported = tessera({"export", "--plain", "--to", "out/plain.safetensors", "--from", "run"});
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_EQ(exported.out, "out/plain.safetensors\n");
  const std::string text = read_file(*folder_ / "out/plain.safetensors");
  EXPECT_THAT(text, HasSubstr("\"head/kernel\":{\"dtype\":\"F32\""));
  EXPECT_THAT(text, Not(HasSubstr("params/")));
  EXPECT_THAT(text, Not(HasSubstr("rng")));
  const Outcome misnamed = tessera({"export", "--plain", "--to", "out", "--from", "run"});
  EXPECT_EQ(misnamed.exit, 2);
  EXPECT_THAT(misnamed.err, HasSubstr("`out` does not name a .safetensors file"));
}

TEST_F(Run, ExportForOthersSaysWhatStandsInTheWay) {
  const auto refusal = [](std::vector<std::string> words, const std::string& to = "other.npz") {
    words.insert(words.begin(), {"export", "--from", "run", "--to", to});
    const Outcome outcome = tessera(words);
    EXPECT_EQ(outcome.exit, 2);
    return outcome.err;
  };
  EXPECT_THAT(refusal({}, "other.safetensors"), HasSubstr("--plain writes one .safetensors file"));
  for (const char* name : {"other.onnx", "other.mlir"})
    EXPECT_THAT(refusal({}, name), HasSubstr("` would be a directory")) << name;
  EXPECT_THAT(refusal({"--format", "hugging_face"}, "other.pth"), HasSubstr("name it without the ending"));
  EXPECT_THAT(refusal({"--format", "hugging_face"}, "theirs"),
              HasSubstr("Hugging Face's ViT has no such model: it would need "));
  EXPECT_THAT(refusal({"--format", "big_vision"}), HasSubstr("big_vision's ViT has no such model: it would need "));
  EXPECT_THAT(refusal({"--format", "huging_face"}), HasSubstr("did you mean `hugging_face`?"));
  EXPECT_THAT(refusal({"--format", "timm", "--plain"}), HasSubstr("`--plain` is a format of its own"));
  for (const char* name : {"theirs", "other.npz", "other.onnx", "other.pth", "other.safetensors"})
    EXPECT_FALSE(fs::exists(*folder_ / name)) << name;
}

TEST_F(Run, TheAverageIsExportedAsItPredicts) {
  const std::vector<std::string> averaging = {"train",         "tiny.toml",         "--workdir",       "averaged",
                                              "total=2 steps", "average.decay=0.5", "optimizer.lr=0.1"};
  const Outcome trained = tessera(averaging);
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const auto answers = [](const std::string& from, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"predict", "--json", "--logits", "val", "--from", from});
    return tessera(more).json().at(3).at("logits");
  };
  const Json average = answers("averaged", {"--weights", "average"});
  EXPECT_NE(average, answers("averaged"));
  const auto exported = [](const std::string& to, std::vector<std::string> more) {
    more.insert(more.begin(), {"export", "--from", "averaged", "--to", to});
    return tessera(more).exit;
  };
  ASSERT_EQ(exported("averaged_timm", {"--weights", "average"}), 0);
  EXPECT_EQ(answers("averaged_timm"), average);
  ASSERT_EQ(exported("raw.safetensors", {"--plain"}), 0);
  ASSERT_EQ(exported("average.safetensors", {"--plain", "--weights", "average"}), 0);
  EXPECT_NE(read_file(*folder_ / "raw.safetensors"), read_file(*folder_ / "average.safetensors"));
  const Outcome plain = tessera({"import", "tiny.toml", "--from", "raw.safetensors", "--to", "from_plain"});
  EXPECT_EQ(plain.exit, 3);
  EXPECT_THAT(plain.err, HasSubstr("export it without --plain"));
}

TEST_F(Run, ImportListsWhatDoesNotFit) {
  ASSERT_EQ(tessera({"export", "--from", "run", "--to", "for_misfit"}).exit, 0);
  const Outcome outcome = tessera({"import", "tiny.toml", "model.depth=3", "--from", "for_misfit", "--to", "misfit"});
  EXPECT_EQ(outcome.exit, 3);
  EXPECT_THAT(outcome.err, HasSubstr("blocks.2"));
  EXPECT_FALSE(fs::exists(*folder_ / "misfit"));
}

TEST_F(Run, WithoutAnEvaluatorPredictAsksForThePreprocessing) {
  std::string recipe = tiny_recipe();
  recipe.resize(recipe.find("[eval.val]"));
  write_file(*folder_ / "bare.toml", recipe);
  const Outcome bare = tessera({"train", "bare.toml", "--workdir", "bare", "total=1 step", "checkpoint.every=1 step"});
  ASSERT_EQ(bare.exit, 0);
  EXPECT_THAT(bare.out,
              HasSubstr("next        tessera predict --from bare --pp 'decode | resize(8) | value_range(-1, 1)' IMAGE…\n"));
  const Outcome asks = tessera({"predict", "--from", "bare", "val/left/0.png"});
  EXPECT_EQ(asks.exit, 2);
  EXPECT_THAT(asks.err, HasSubstr("--pp"));
  const Outcome told =
      tessera({"predict", "--from", "bare", "val/left/0.png", "--pp", "decode | resize(8) | value_range(-1, 1)"});
  EXPECT_EQ(told.exit, 0) << told.err;
  EXPECT_THAT(told.out, MatchesRegex("val/left/0.png   (left|right) .*%   (left|right) .*%\n"));
}

TEST_F(Run, RecipeMistakesNameTheKeyAndLeaveNoWorkdir) {
  struct Case {
    std::string setting;
    int exit;
    std::string err;
  };
  const Case cases[] = {
      {"optimizer.learning_rate=1", 2, "error: unknown key `optimizer.learning_rate`\n"},
      {"data.batch=100", 2, "error: `data.batch` is 100, and `train` has 12 images\n"},
      {"data.batch=four", 2, "error: `data.batch`"},
      {"total=0 epochs", 2, "error: `total` must be above 0\n  --> override total=0 epochs\nhelp: for example \"60 epochs\"\n"},
      {"data.source=folder(gone)", 3, "error: the folder `gone` does not exist\n"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = tessera({"train", "tiny.toml", c.setting, "--workdir", "never"});
    EXPECT_EQ(outcome.exit, c.exit) << c.setting;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith(c.err));
    EXPECT_FALSE(fs::exists(*folder_ / "never")) << c.setting;
  }
  EXPECT_THAT(tessera({"train", "tiny.toml", "optimizer.learning_rate=1"}).err, HasSubstr("optimizer.lr"));
  EXPECT_EQ(tessera({"train", "missing.toml"}).exit, 2);
}

}  // namespace
}  // namespace tessera::cli
