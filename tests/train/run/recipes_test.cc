// Every recipe that comes with the program: read, and its programs traced.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "recipe/recipe.h"
#include "support/paths.h"
#include "train/step/step.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testing::source_path("recipes"))) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

// Data that are not in the repository are made up; evaluators of made-up captions would need candidates too.
std::vector<std::string> overrides_of(const std::string& name) {
  if (name == "digits" || name == "fine_tune") {
    return {"data.source=fake(images=100, classes=10)", "eval.val.data.source=fake(images=100, classes=10)"};
  }
  if (name == "cappa_toy") {
    return {"data.source=fake(images=100000, classes=1, words=8)",
            "data.pp=decode | resize(64) | value_range(-1, 1) | tokenize(12, model=fake(64))", "eval={}"};
  }
  return {};
}

class Recipes : public ::testing::TestWithParam<std::string> {};

TEST_P(Recipes, IsReadAndTraced) {
  const int64_t devices = GetParam() == "vit_250b" ? 256 : 8;  // which is for no fewer
  const std::string path = testing::source_path(fmt::format("recipes/{}.toml", GetParam()));
  const recipe::Recipe recipe = recipe::read_recipe(config::load_recipe(path, overrides_of(GetParam())), devices);
  const state::StateLayout layout = recipe::recipe_layout(recipe);
  ProgramOptions options;
  options.batch = recipe.program_rows();
  options.pixels = recipe.data.pp().pixel_scale();
  options.compute = recipe.compute;
  options.objective = recipe.objective;
  options.augmentation = augmentation_of(recipe.data.pp(), recipe.data.mixup);
  options.accumulate = recipe.run.accumulate;
  options.average = recipe.average;
  const Program program = train_program(*recipe.model, layout, *recipe.optimizer, options);
  EXPECT_NE(program.text.find("func.func public @main"), std::string::npos);
  EXPECT_EQ(program.donated.size(), layout.entries.size());
  for (const recipe::EvalPlan& plan : recipe.evals) {
    for (size_t set = 0; set < plan.sets.size(); ++set) {
      ProgramOptions of = options;
      of.batch = plan.sets[set].batch;
      of.pixels = plan.sets[set].pixels();
      EXPECT_FALSE(eval_program(*recipe.model, *plan.evaluator, set, layout, of).text.empty()) << plan.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Recipes, ::testing::ValuesIn(recipe_names()), [](const auto& of) { return of.param; });

}  // namespace
}  // namespace tessera::train
