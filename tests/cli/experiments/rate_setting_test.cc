// lr=RATE among the settings of a command: the rate of the recipe's schedule.
#include "cli/rate_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/run_program.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRecipeWithSchedule = "optimizer = { name = \"adamw\", lr = \"cosine(1e-3, warmup=5 %)\" }\n";

std::string schedule_of(const std::vector<std::string>& settings) {
  return read_with_rate(settings, [](const auto& own) { return config::parse_recipe(kRecipeWithSchedule, "r.toml", own); })
      .section("optimizer")
      .text("lr", "");
}

TEST(RateSetting, IsOfTheScheduleThatTheOtherSettingsGive) {
  EXPECT_EQ(schedule_of({}), "cosine(1e-3, warmup=5 %)");
  EXPECT_EQ(schedule_of({"lr=3e-4"}), "cosine(3e-4, warmup=5 %)");
  EXPECT_EQ(schedule_of({"lr=3e-4", "optimizer.lr=one_cycle(1e-2, start=10 %)"}), "one_cycle(3e-4, start=10 %)");
  EXPECT_EQ(schedule_of({"lr=3e-4", "lr=1"}), "cosine(1, warmup=5 %)") << "of two the last, as of any setting";
}

TEST(RateSetting, IsANumber) {
  for (const char* setting : {"lr=1e-3,3e-3", "lr=", "lr=cosine(1e-3)", "lr=-1", "lr=nan"}) {
    try {
      schedule_of({setting});
      ADD_FAILURE() << setting;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kUsage) << setting;
      EXPECT_THAT(error.what(), AllOf(HasSubstr("`lr` is the rate of the recipe's schedule"), HasSubstr("tessera sweep")));
    }
  }
}

// What a sweep found is trained by the same word.
TEST(RateSetting, EveryCommandOfARecipeTakesIt) {
  const TempFolder folder;
  write_images(folder / "train", 6);
  write_images(folder / "val", 5);
  std::string recipe = tiny_recipe();
  recipe.replace(recipe.find("\"1e-2\""), 6, "\"cosine(1e-2, warmup=2 steps)\"");
  write_file(folder / "tiny.toml", recipe);
  const Outcome trained = run_program({"train", "tiny.toml", "lr=2e-3", "--workdir", "run", "--no-report"}, folder.path());
  EXPECT_EQ(trained.exit, 0) << trained.err;
  EXPECT_THAT(read_file(folder / "run/recipe.toml"), HasSubstr("lr = \"cosine(2e-3, warmup=2 steps)\""));
  const Outcome tuned =
      run_program({"fine-tune", "train", "--from", "run", "lr=5e-4", "--valid", "val", "--print-recipe"}, folder.path());
  EXPECT_EQ(tuned.exit, 0) << tuned.err;
  EXPECT_THAT(tuned.out, HasSubstr("lr = \"one_cycle(5e-4"));
  const Outcome timm =
      run_program({"timm", ".", "--model", "resnet18", "--val-split", "val", "lr=0.3", "--print-recipe"}, folder.path());
  EXPECT_EQ(timm.exit, 0) << timm.err;
  EXPECT_THAT(timm.out, HasSubstr("lr = \"cosine(0.3, "));
}

}  // namespace
}  // namespace tessera::cli
