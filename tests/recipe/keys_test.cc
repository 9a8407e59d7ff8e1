// Which keys of a recipe there are, and which of them a run may go on with changed.

#include "recipe/keys.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "monitor/sinks/sink.h"

namespace tessera::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RecipeKeys, WhatDoesNotChangeARunsNumbersMayChange) {
  for (const char* key : {"total",
                          "log",
                          "eval_at_start",
                          "mesh",
                          "accumulate",
                          "optimization_level",
                          "sharding.preset",
                          "sharding.rules",
                          "model.remat",
                          "checkpoint.every",
                          "checkpoint.keep",
                          "checkpoint.keep_every",
                          "checkpoint.best",
                          "data.threads",
                          "data.prefetch",
                          "data.on_error",
                          "data.max_bad",
                          "data.cache",
                          "data.memory",
                          "data.limits.max_pixels",
                          "eval.val.every",
                          "eval.val.at_end",
                          "eval.val.batch",
                          "eval.val.predictions",
                          "eval.val.predictions_format",
                          "eval.val.data.threads",
                          "eval.val.data.max_bad",
                          "eval.few.train.limits.max_seconds"}) {
    EXPECT_TRUE(key_may_change(key)) << key;
  }
}

// A new one needs a line of sinks.def, and none here.
TEST(RecipeKeys, TheHelpOfSinksNamesThemAll) {
  std::string help;
  for (const SectionKeys& section : recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) {
      if (doc.key == "monitor.sinks") help = doc.help;
    }
  }
  for (const std::string& name : monitor::sink_names()) EXPECT_THAT(help, ::testing::HasSubstr(fmt::format("\"{}\"", name)));
}

TEST(RecipeKeys, AKeyIsKnownWhereAComponentHasIt) {
  for (const char* key : {"seed", "optimizer", "optimizer.b1", "eval.any.every", "eval.any.train.source", "data.mix.any.source",
                          "data.limits.max_pixels"}) {
    EXPECT_TRUE(is_key(key)) << key;
  }
  for (const char* key : {"sead", "optimize", "optimizer.b", "eval.any.evry", "data.limits.pixels"}) {
    EXPECT_FALSE(is_key(key)) << key;
  }
  EXPECT_THAT(parts_below(""), ::testing::IsSupersetOf({"seed", "optimizer", "eval"}));
  EXPECT_THAT(parts_below("eval"), ::testing::ElementsAre("NAME"));
  EXPECT_THAT(parts_below("eval.any.data"), ::testing::IsSupersetOf({"source", "pp", "limits"}));
}

TEST(RecipeKeys, WhatChangesThemMayNot) {
  for (const char* key : {"seed",
                          "dtype",
                          "model.name",
                          "model.width",
                          "model.dropout",
                          "objective.name",
                          "objective.label_smoothing",
                          "optimizer.lr",
                          "optimizer.weight_decay",
                          "optimizer.b1",
                          "average.decay",
                          "data.source",
                          "data.batch",
                          "data.pp",
                          "data.shuffle",
                          "data.mixup.mixup",
                          "data.mix.photos.weight",
                          "eval.val.type",
                          "eval.val.data.pp",
                          "eval.val.k",
                          "model_init.from",
                          "no.such.key",
                          ""}) {
    EXPECT_FALSE(key_may_change(key)) << key;
  }
}

std::vector<std::string> changed(const std::string& before, const std::string& now) {
  std::vector<std::string> keys;
  for (const config::Difference& one : changed_keys(before, now)) keys.push_back(one.key);
  return keys;
}

TEST(RecipeKeys, AKeyThatAnEarlierVersionDidNotKnowChangesNothingWithItsDefault) {
  const std::string before = "seed = 0\n[data]\nbatch = 8\n";
  EXPECT_THAT(changed(before, before + "aug_repeats = 1\nshuffle = \"auto\"\n"), IsEmpty());
  EXPECT_THAT(changed(before, before + "aug_repeats = 2\n"), ElementsAre("data.aug_repeats"));
  EXPECT_THAT(changed(before, "seed = 0\neval_at_start = false\n[data]\nbatch = 9\n"), ElementsAre("data.batch"));
  // A table as a whole has a meaning; what stood there before and is gone is a change, and so is a key that nobody knows.
  EXPECT_THAT(changed(before, before + "[guard]\nmax_skips = 3\n"), ElementsAre("guard.max_skips"));
  EXPECT_THAT(changed(before + "aug_repeats = 1\n", before), ElementsAre("data.aug_repeats"));
  EXPECT_THAT(changed(before, before + "no_such_key = 1\n"), ElementsAre("data.no_such_key"));
}

TEST(RecipeKeys, EveryComponentHasItsKeys) {
  std::map<std::string, std::string> help;
  for (const SectionKeys& section : recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) help[doc.key] += doc.help + "\n";
  }
  EXPECT_THAT(help["objective.name"], ::testing::HasSubstr("jsd (cross-entropy of clean images"));
  EXPECT_THAT(help["objective.alpha"], ::testing::HasSubstr("(jsd) "));
  EXPECT_THAT(help["eval.NAME.type"], ::testing::HasSubstr("knn (prec@1"));
  EXPECT_THAT(help["eval.NAME.k"], ::testing::HasSubstr("(knn) "));
  EXPECT_THAT(help["optimizer.name"], ::testing::HasSubstr("adamw, adam, "));
  EXPECT_THAT(help["optimizer.b1"], ::testing::HasSubstr("(adamw) "));
  EXPECT_THAT(help["optimizer.b1"], ::testing::HasSubstr("(lion) "));
  EXPECT_THAT(help["model.depth"], ::testing::HasSubstr("(vit) "));
}

TEST(RecipeKeys, PlaceholdersStandForNames) {
  EXPECT_EQ(with_placeholder("eval.val.every"), "eval.NAME.every");
  EXPECT_EQ(with_placeholder("data.mix.photos.weight"), "data.mix.NAME.weight");
  EXPECT_EQ(with_placeholder("data.batch"), "data.batch");
}

}  // namespace
}  // namespace tessera::recipe
