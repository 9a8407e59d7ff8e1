// Which settings go on, and when.

#include "train/sweep/halving.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "config/section.h"
#include "train/sweep/rows.h"

namespace tessera::sweep {
namespace {

using ::testing::ElementsAre;

recipe::Recipe recipe_of(const std::vector<std::string>& words = {}) {
  return recipe::read_recipe(config::parse_recipe(R"toml(
total     = "100 steps"
log       = "7 steps"
data      = { source = "fake(images=40, classes=4)", batch = 10, pp = "decode | resize(8) | value_range(-1, 1)" }
model     = { name = "vit", width = 16, depth = 1, heads = 2, patch = 4, pool = "gap" }
objective = { name = "softmax" }
optimizer = { name = "adamw", lr = "1e-3" }
[eval.val]
type  = "classification"
data  = { source = "fake(images=10, classes=4)", pp = "decode | resize(8) | value_range(-1, 1)" }
every = "5 steps"
)toml",
                                                  "recipe.toml", words));
}

std::vector<int64_t> rungs(const HalvingOptions& options, size_t settings, const std::vector<std::string>& words = {},
                           const std::string& metric = "val/prec@1") {
  return rungs_of(recipe_of(words), options, {metric, true}, settings);
}

TEST(Halving, RungsAreAtStepsAtWhichTheMetricIsMeasured) {
  EXPECT_THAT(rungs({}, 9), ElementsAre(10, 35, 100));  // 11.1 and 33.3
  EXPECT_THAT(rungs({}, 26), ElementsAre(10, 35, 100)) << "three to a setting, rounded down";
  EXPECT_THAT(rungs({}, 27), ElementsAre(5, 10, 35, 100));  // 3.7, 11.1, 33.3
  EXPECT_THAT(rungs({}, 2), ElementsAre(35, 100)) << "one rung at least";
  EXPECT_THAT(rungs({2, ""}, 4), ElementsAre(25, 50, 100));
  EXPECT_THAT(rungs({2, ""}, 64), ElementsAre(5, 10, 25, 50, 100)) << "rungs at one step are one";
  EXPECT_THAT(rungs({3, "20 steps"}, 4), ElementsAre(20, 60, 100));
  EXPECT_THAT(rungs({3, "5 epochs"}, 4), ElementsAre(20, 60, 100));
  EXPECT_THAT(rungs({3, "40 %"}, 4), ElementsAre(40, 100));
  EXPECT_THAT(rungs({}, 9, {}, "training_loss"), ElementsAre(14, 35, 100));
  EXPECT_THAT(rungs({}, 9, {"eval.val.every=40 steps"}), ElementsAre(40, 100));
  EXPECT_THAT(rungs({}, 9, {"average.decay=0.9"}, "val_ema/prec@1"), ElementsAre(10, 35, 100));
}

TEST(Halving, NeedsAStepToCompareAt) {
  EXPECT_THROW(rungs({}, 9, {"eval.val.every=100 %"}), Error);
  EXPECT_THROW(rungs({3, "100 steps"}, 9), Error);
  EXPECT_THROW(rungs({3, "0 steps"}, 9), Error);
  EXPECT_THROW(rungs({3, "soon"}, 9), Error);
}

Variant of(const std::string& lr, const std::string& seed = "0") { return {{"lr", lr}, {"seed", seed}}; }

TEST(Halving, TheBestSettingsGoOn) {
  const std::vector<Variant> six{of("1"), of("2"), of("3"), of("4"), of("5"), of("6")};
  const std::vector<std::optional<double>> scores{0.1, 0.9, 0.5, 0.9, 0.2, 0.3};
  EXPECT_THAT(survivors(six, scores, {"val/prec@1", true}, 3), ElementsAre(1, 3));
  EXPECT_THAT(survivors(six, scores, {"val/prec@1", true}, 6), ElementsAre(1)) << "the first of those that are alike";
  EXPECT_THAT(survivors(six, scores, {"val/prec@1", true}, 100), ElementsAre(1)) << "one at least";
  EXPECT_THAT(survivors(six, scores, {"val/loss", false}, 2), ElementsAre(0, 4, 5));
  EXPECT_THAT(survivors({of("1"), of("2")}, {std::nullopt, 0.1}, {"val/prec@1", true}, 2), ElementsAre(1));
  EXPECT_THAT(survivors({of("1")}, {std::nullopt}, {"val/prec@1", true}, 2), ElementsAre()) << "all failed";
}

TEST(Halving, RepetitionsOfSettingsGoOnTogether) {
  const std::vector<Variant> four{of("1", "0"), of("1", "1"), of("2", "0"), of("2", "1")};
  EXPECT_THAT(survivors(four, {0.9, 0.1, 0.6, 0.7}, {"val/prec@1", true}, 2), ElementsAre(2, 3)) << "by their means";
  EXPECT_THAT(survivors(four, {0.9, std::nullopt, 0.6, 0.7}, {"val/prec@1", true}, 2), ElementsAre(0, 1));
}

}  // namespace
}  // namespace tessera::sweep
