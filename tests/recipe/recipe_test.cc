// Every mistake that a recipe can hold is found before anything is compiled, and its message names the key.

#include "recipe/recipe.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/text/text.h"
#include "recipe/preprocessing_notes.h"
#include "support/paths.h"
#include "train/small_run.h"
#include "train/workdir/workdir.h"

namespace tessera::train {
namespace {

std::string failure(const std::vector<std::string>& overrides, Exit code = Exit::kUsage) {
  try {
    recipe::read_recipe(testing::small_run().section(overrides));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

#define EXPECT_FAILURE(text, ...)                                \
  do {                                                           \
    const std::string message = failure(__VA_ARGS__);            \
    EXPECT_NE(message.find(text), std::string::npos) << message; \
  } while (false)

TEST(Recipe, ResolvesDurationsAndDefaults) {
  const recipe::Recipe recipe =
      recipe::read_recipe(testing::small_run().section({"total=3 epochs", "checkpoint.every=1 epoch", "log=10 %"}));
  EXPECT_EQ(recipe.total, 15);
  EXPECT_EQ(recipe.checkpoint_every, 5);
  EXPECT_EQ(recipe.log_every, 2);
  EXPECT_EQ(recipe.evals[0].every, 3);
  EXPECT_EQ(recipe.evals[0].sets[0].batch, 10);
  EXPECT_EQ(recipe.class_names, (std::vector<std::string>{"blue", "green", "red"}));
  EXPECT_EQ(recipe.model->input().classes, 3);
  EXPECT_DOUBLE_EQ(recipe.epochs(5), 1);
  EXPECT_EQ(recipe.data.loader(4, 0).max_bad_key, "data.max_bad");
  EXPECT_EQ(recipe.evals[0].sets[0].data.loader(4, 0).max_bad_key, "eval.val.data.max_bad");
  // What is written to the workdir reads back to the same.
  EXPECT_TRUE(config::difference(recipe.text, recipe::read_recipe(config::parse_recipe(recipe.text)).text).empty());
}

// Training goes without a fold, and evaluators of the same source have it.
TEST(Recipe, HoldsAFoldOut) {
  const std::string source = "fake(images=40, classes=4)";
  const std::vector<std::string> words = {"data.source=" + source, "eval.val.data.source=" + source, "data.fold=1/4",
                                          "data.batch=5", "eval.val.batch=5"};
  const recipe::Recipe made = recipe::read_recipe(testing::small_run().section(words));
  const int64_t held_out = made.evals[0].sets[0].data.size();
  EXPECT_TRUE(held_out >= 8 && held_out <= 12) << held_out;  // ten images a class, two or three of each
  EXPECT_EQ(made.data.size(), 40 - held_out);
  // As it is written to the workdir, for those who read a part of it.
  const recipe::Recipe again = recipe::read_recipe(config::parse_recipe(made.text));
  EXPECT_EQ(again.data.size(), 40 - held_out);
  EXPECT_EQ(again.evals[0].sets[0].data.size(), held_out);
  std::vector<std::string> other = words;
  other[1] = "eval.val.data.source=fake(images=8, classes=4)";
  EXPECT_FAILURE("`data.fold` holds fold 1/4 out, and no evaluator has it", other);
  EXPECT_FAILURE("'eval.val.data.source=" + source + "'", other);
  other = words;
  other[2] = "data.fold=4/4";
  EXPECT_FAILURE("K from 0 to N-1", other);
}

// Ten images of each of four classes.
TEST(Recipe, AnEvaluatorThatSeesImagesOfTrainingIsNoted) {
  const auto notes = [](const std::string& training, const std::string& evaluation) {
    const std::vector<std::string> words = {"data.source=" + training, "eval.val.data.source=" + evaluation, "data.batch=5",
                                            "eval.val.batch=5"};
    return join(recipe::evaluation_notes(recipe::read_recipe(testing::small_run().section(words))), "\n");
  };
  const auto part = [](const std::string& how) { return "part(fake(images=40, classes=4), " + how + ")"; };
  EXPECT_EQ(notes(part("train, 20 %"), part("valid, 20 %")), "");
  EXPECT_EQ(notes(part("train, fold=1/5"), part("valid, fold=1/5")), "");
  EXPECT_EQ(notes(part("train, 30 %"), part("valid, 20 %")), "") << "more is held out than is scored";
  EXPECT_EQ(notes(part("train, 20 %"), part("train, 20 %")), "") << "as it is meant";
  EXPECT_EQ(notes("fake(images=40, classes=4)", "fake(images=8, classes=4)"), "");
  EXPECT_THAT(notes(part("train, 10 %"), part("valid, 20 %")),
              ::testing::HasSubstr("`eval.val` is scored on 4 images that training has too"));
  EXPECT_THAT(notes(part("train, fold=0/5"), part("valid, fold=1/5")), ::testing::HasSubstr("on 8 images that training has"));
  EXPECT_THAT(notes("fake(images=40, classes=4)", part("valid, 20 %")), ::testing::HasSubstr("on 8 images that training has"));
}

TEST(Recipe, MistakesNameTheirKey) {
  EXPECT_FAILURE("did you mean `optimizer.lr`", {"optimiser={lr=1}"});
  EXPECT_FAILURE("data.batch", {"data.batch=61"});
  EXPECT_FAILURE("at most 60", {"data.batch=61"});
  EXPECT_FAILURE("`data.batch` must be at least 1", {"data.batch=-1"});
  EXPECT_FAILURE("accumulate", {"accumulate=5"});
  EXPECT_FAILURE("dtype", {"dtype=\"f16\""});
  EXPECT_FAILURE("`optimization_level` is 4", {"optimization_level=4"});
  EXPECT_FAILURE("does not fit 1 device", {"mesh=\"replica=8\""});
  EXPECT_FAILURE("total", {"total=10 %"});
  EXPECT_FAILURE("total", {"total=0 steps"});
  EXPECT_FAILURE("seed", {"seed=-1"});
  EXPECT_FAILURE("model.classes", {"model.classes=7"});
  EXPECT_FAILURE("the model takes 16 x 16", {"model.image_size=16"});
  EXPECT_FAILURE("keeps every token", {"model.pool=\"none\""});
  EXPECT_FAILURE("did you mean `softmax`", {"objective.name=\"softmx\""});
  EXPECT_FAILURE("label_smoothing", {"objective.label_smoothing=1"});
  EXPECT_FAILURE("checkpoint.keep", {"checkpoint.keep=0"});
  EXPECT_FAILURE("on_error", {"data.on_error=\"ignore\""});
  EXPECT_FAILURE("eval.val.type", {"eval.val.type=\"captions\""});
  EXPECT_FAILURE("eval.val.batch", {"eval.val.batch=0"});
  EXPECT_FAILURE("`eval.input` is no name of an evaluator", {"eval.input.type=classification"});
  EXPECT_FAILURE("prec@1 (accuracy), prec@5 and loss are there", {"eval.val.metrics=[\"accuracy\"]"});
  EXPECT_FAILURE("random", {"eval.val.data.pp=\"decode | random_crop(8) | value_range\""});
  EXPECT_FAILURE("model_init.from", {"model_init.dont_load=[\"head/.*\"]"});
  EXPECT_FAILURE("data.source", {"data.source=\"folder(/nonexistent)\""}, Exit::kData);
}

TEST(Recipe, EvaluatorsHaveTheClassesOfTraining) {
  const testing::TempDir dir;
  testing::make_images(dir / "other", 6, 3);
  std::filesystem::rename(dir / "other/red", dir / "other/rot");
  const std::vector<std::string> other{fmt::format("eval.val.data.source=\"folder({}/other)\"", dir.path())};
  EXPECT_FAILURE("has a class that training does not: `rot`", other);
  // One that is missing is none too many: labels are training's.
  std::filesystem::remove_all(dir / "other/rot");
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section(other));
  const data::Source& source = recipe.evals[0].sets[0].data.source();
  EXPECT_EQ(source.class_names(), recipe.class_names);
  EXPECT_EQ(source.class_sizes(), (std::vector<int64_t>{2, 2, 0}));
}

TEST(Recipe, WhatItSaysOfTheInputReachesTheLoader) {
  using data::Shuffle;
  const auto loader = [](const std::vector<std::string>& overrides) {
    return recipe::read_recipe(testing::small_run().section(overrides)).data.loader(12, 5);
  };
  EXPECT_EQ(loader({}).seed, 5u);
  EXPECT_EQ(loader({"data.threads=3"}).threads, 3);
  EXPECT_EQ(loader({"data.on_error=error"}).unreadable, data::Unreadable::kError);
  EXPECT_FALSE(loader({}).mixup);
  EXPECT_TRUE(loader({"data.mixup={mixup=0.5}"}).mixup);
  EXPECT_EQ(loader({"data.shuffle=full"}).shuffle.kind, Shuffle::Kind::kFull);
  const Shuffle window = loader({"data.shuffle=window(samples=24, lanes=3)"}).shuffle;
  EXPECT_EQ(window.kind, Shuffle::Kind::kWindow);
  EXPECT_EQ(window.samples, 24);
  EXPECT_EQ(window.lanes, 3);
}

TEST(Recipe, TooFewShotsAreFoundAtOnce) {
  const recipe::Recipe recipe = recipe::read_recipe(testing::small_run().section({}));
  const std::string data =
      fmt::format("{{source = \"{}\", pp = \"{}\"}}", recipe.data.options.source, recipe.evals[0].sets[0].data.pp().text());
  const auto with_shots = [&](int shots) {
    return std::vector<std::string>{
        fmt::format("eval.few={{type = \"few_shot\", shots = [1, {}], data = {}, train = {}}}", shots, data, data)};
  };
  EXPECT_FAILURE("no error", with_shots(20));
  EXPECT_FAILURE("has 20 examples, too few for 21 shots", with_shots(21), Exit::kData);
  EXPECT_FAILURE("`eval.few.train`", with_shots(21), Exit::kData);
}

TEST(Recipe, FormatsOfPredictionsAreChecked) {
  EXPECT_FAILURE("`eval.val.predictions_format` is \"csv\"", {"eval.val.predictions_format=csv"});
  setenv("TESSERA_PARQUET", "/nowhere/tessera_parquet.so", 1);
  const std::string asked = failure({"eval.val.predictions=true", "eval.val.predictions_format=parquet"}, Exit::kData);
  EXPECT_FAILURE("no error", {"eval.val.predictions_format=parquet"});  // not asked for
  unsetenv("TESSERA_PARQUET");
  // In a process that loaded it before, it stays.
  EXPECT_TRUE(asked == "no error" || (asked.find("./dev parquet-deps") != std::string::npos &&
                                      asked.find("`eval.val.predictions_format`") != std::string::npos))
      << asked;
}

// The small run's data as two sets of a mixture.
std::vector<std::string> mixture(const std::vector<std::string>& more = {}) {
  const std::string source = recipe::read_recipe(testing::small_run().section({})).data.options.source;
  std::vector<std::string> overrides = {"data.source=\"\"", fmt::format("data.mix.a={{source=\"{}\", weight=3}}", source),
                                        fmt::format("data.mix.b={{source=\"{}\"}}", source)};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

TEST(Recipe, MixesDataSets) {
  const recipe::Recipe recipe =
      recipe::read_recipe(testing::small_run().section(mixture({"data.shuffle=\"window(20, lanes=3)\""})));
  ASSERT_EQ(recipe.data.sets.size(), 2u);
  EXPECT_EQ(recipe.data.sets[0].name, "a");
  EXPECT_EQ(recipe.data.sets[0].weight, 3);
  EXPECT_EQ(recipe.data.sets[1].pp->text(), recipe.data.options.pp);
  EXPECT_EQ(recipe.examples_per_epoch, 120);
  EXPECT_EQ(recipe.data.shuffle.samples, 20);
  EXPECT_TRUE(config::difference(recipe.text, recipe::read_recipe(config::parse_recipe(recipe.text)).text).empty());
}

TEST(Recipe, MixturesMustAgree) {
  EXPECT_FAILURE("`data.mix.b.weight` must be above 0", mixture({"data.mix.b.weight=0"}));
  EXPECT_FAILURE("did you mean `data.mix.a.weight`", mixture({"data.mix.a.wieght=1"}));
  EXPECT_FAILURE("makes images of 5 x 5", mixture({"data.mix.b.pp=\"decode | resize(5) | value_range(-1, 1)\""}));
  EXPECT_FAILURE("scales values or erases in another way",
                 mixture({"data.mix.b.pp=\"decode | resize(8) | value_range(0, 1)\""}));
  EXPECT_FAILURE("2 classes, and `a` has 3", mixture({"data.mix.b.source=\"fake(10, classes=2)\""}));
  EXPECT_FAILURE("stands beside data.mix", mixture({"data.source=\"fake\""}));
  EXPECT_FAILURE("unknown shuffle `ful`", {"data.shuffle=\"ful\""});
  EXPECT_FAILURE("max_bad", {"data.max_bad=\"3 steps\""});
}

TEST(Recipe, MemoryOfBatchesIsBounded) {
  const auto prefetch = [](const std::string& memory) {
    return recipe::read_recipe(testing::small_run().section({"data.memory=\"" + memory + "\""})).data.loader(100, 0).prefetch;
  };
  // Rows of 8 x 8 x 3 bytes and 20 more; the step holds two batches.
  EXPECT_EQ(prefetch("63600"), 1);
  EXPECT_EQ(prefetch("100 KB"), 2);
  EXPECT_THROW(prefetch("63599"), Error);
  EXPECT_FAILURE("no size in bytes", {"data.memory=\"some\""});
  EXPECT_FAILURE("`data.memory`", {"data.memory=\"100\""});
  EXPECT_FAILURE("unknown cache `rom`", mixture({"data.cache=\"rom(1 GiB)\""}));
  EXPECT_FAILURE("`data.cache`", {"data.cache=\"ram(much)\""});
}

TEST(Recipe, NumbersOfTheInputAreBounded) {
  EXPECT_FAILURE("`data.prefetch` must be 1 to 1024, and is 1000000000", {"data.prefetch=1000000000"});
  EXPECT_FAILURE("`data.threads` must be 0 to 1024, and is -1", {"data.threads=-1"});
  EXPECT_FAILURE("`data.threads` must be 0 to 1024, and is 1025", {"data.threads=1025"});
  // The error names the memory of the batches before any is taken.
  EXPECT_FAILURE("4 batches of 1000000000000000000 images would take", {"data.batch=1000000000000000000"});
  EXPECT_FAILURE("4 batches of 100000000000 images would take 77.13 TiB", {"eval.val.batch=100000000000"});
  for (const char* key : {"keep", "keep_best"}) {
    EXPECT_FAILURE(fmt::format("`checkpoint.{}` must be 1 to 1000000, and is 9223372036854775807", key),
                   {fmt::format("checkpoint.{}=9223372036854775807", key)});
  }
  EXPECT_FAILURE("`optimizer.steps` must be 1 to 100", {"optimizer.name=muon", "optimizer.steps=1000000000"});
}

TEST(Recipe, LimitsOfAnImage) {
  const auto limits = [](const std::vector<std::string>& overrides) {
    return recipe::read_recipe(testing::small_run().section(overrides)).data.loader(12, 0).limits;
  };
  EXPECT_EQ(limits({}).pixels, 100'000'000);
  EXPECT_EQ(limits({}).bytes, 512 << 20);
  EXPECT_EQ(limits({}).scans, 100);
  EXPECT_EQ(limits({}).seconds, 2);
  const auto set = limits({"data.limits={max_pixels=200, max_scans=3, max_memory=\"1 GiB\", max_seconds=0}"});
  EXPECT_EQ(set.pixels, 200);
  EXPECT_EQ(set.bytes, 1 << 30);
  EXPECT_EQ(set.scans, 3);
  EXPECT_EQ(set.seconds, 0);
  EXPECT_FAILURE("`data.limits.max_pixels` must be 1 to 4294967296, and is 0", {"data.limits.max_pixels=0"});
  EXPECT_FAILURE("`data.limits.max_scans` must be 1 to 100000, and is 1000000", {"data.limits.max_scans=1000000"});
  EXPECT_FAILURE("`data.limits.max_seconds` must be 0 to 3600, and is 1e+09", {"data.limits.max_seconds=1e9"});
  EXPECT_FAILURE("`data.limits.max_memory` must be 1 to", {"data.limits.max_memory=\"4 TiB\""});
  EXPECT_FAILURE("did you mean `data.limits.max_pixels`", {"data.limits.maxpixels=5"});
}

TEST(Recipe, TextsOfAChainMustBeThere) {
  const std::string model = testing::source_path("tests/references/text/unigram.model");
  const auto pp = [&](const std::string& set, int length) {
    return fmt::format("{}.pp=\"decode | resize(8) | value_range | tokenize({}, model={}, key=caption)\"", set, length, model);
  };
  EXPECT_FAILURE("reads the text `caption`", {pp("data", 8)});
  EXPECT_FAILURE("`eval.val.data.pp`", {pp("eval.val.data", 8)});
  const testing::TempDir dir;
  testing::spill(dir / "a.jsonl", "{\"image\": \"a.png\", \"caption\": \"a\", \"label\": 0}\n");
  const std::string source = fmt::format("source=\"jsonl({}/a.jsonl, text=caption, classes=3)\"", dir.path());
  EXPECT_FAILURE("makes other arrays of ids than that of `a`", {"data.source=\"\"", "data.mix.a." + source, pp("data.mix.a", 8),
                                                                "data.mix.b." + source, pp("data.mix.b", 9)});
}

TEST(Due, AsBigVision) {
  std::vector<int64_t> steps;
  for (int64_t s = 1; s <= 22; ++s) {
    if (recipe::due(s, 5, 22)) steps.push_back(s);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{5, 10, 15, 20, 22}));
  EXPECT_FALSE(recipe::due(20, 5, 21));  // within a quarter of 5 from the end
  EXPECT_TRUE(recipe::due(21, 0, 21));
  EXPECT_FALSE(recipe::due(20, 0, 21));
}

// ---- workdirs ----

TEST(Workdir, ContinuesWithTheSameRecipeAndListsWhatDiffers) {
  const testing::TempDir dir;
  const std::string path = dir / "runs/a";
  {
    Workdir first(path, "seed = 0\ntotal = \"10 steps\"\nlog = \"1 step\"\n");
    first.write_recipe();
  }
  { const Workdir taken(path, "seed = 1\n"); }  // nothing was done yet: another recipe may take it over
  std::filesystem::create_directories(path + "/checkpoints/step_000000001");
  const Workdir again(path, "seed = 0\ntotal = \"20 steps\"\nlog = \"2 steps\"\n");
  EXPECT_EQ(again.changes().size(), 2u);
}

TEST(Workdir, RefusesAnotherRecipe) {
  const testing::TempDir dir;
  Workdir(dir / "a", "seed = 0\n[data]\nthreads = 1\n").write_recipe();
  std::filesystem::create_directories(dir / "a/checkpoints/step_000000001");
  EXPECT_NO_THROW(Workdir(dir / "a", "seed = 0\n[data]\nthreads = 2\n"));
  try {
    const Workdir other(dir / "a", "seed = 1\n[data]\nthreads = 1\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    EXPECT_NE(std::string(error.what()).find("seed = 1   there: 0"), std::string::npos) << error.what();
  }
}

TEST(Workdir, IsLockedWhileItLives) {
  const testing::TempDir dir;
  const Workdir first(dir / "a", "seed = 0\n");
  EXPECT_THROW(Workdir(dir / "a", "seed = 0\n"), Error);
}

TEST(Workdir, FindsTheRecipeOfACheckpoint) {
  const testing::TempDir dir;
  Workdir(dir / "a", "seed = 3\n").write_recipe();
  std::filesystem::create_directories(dir / "a/checkpoints/step_000000001");
  EXPECT_EQ(find_recipe(dir / "a"), "seed = 3\n");
  EXPECT_EQ(find_recipe(dir / "a/checkpoints/step_000000001/"), "seed = 3\n");
  EXPECT_EQ(find_recipe(dir.path()), "");
}

}  // namespace
}  // namespace tessera::train
