// The recipes of a sweep.

#include "train/sweep/variants.h"

#include <gmock/gmock.h>

#include <set>

#include "base/error.h"

namespace tessera::sweep {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> values_of(const std::string& word) {
  const auto axis = parse_axis(word);
  return axis ? axis->values : std::vector<std::string>{};
}

TEST(Axis, HasValuesBetweenCommasOrARange) {
  EXPECT_EQ(parse_axis("optimizer.lr=1e-4,3e-4")->key, "optimizer.lr");
  EXPECT_THAT(values_of("optimizer.lr=1e-4, 3e-4"), ElementsAre("1e-4", "3e-4"));
  EXPECT_THAT(values_of("seed=2..4"), ElementsAre("2", "3", "4"));
  EXPECT_THAT(values_of("seed=-1..0"), ElementsAre("-1", "0"));
  EXPECT_THAT(values_of("optimizer.lr=cosine(1e-3, warmup=5 %),step(1e-2, every=3 epochs)"),
              ElementsAre("cosine(1e-3, warmup=5 %)", "step(1e-2, every=3 epochs)"));
  EXPECT_THAT(values_of("model.depths=[1, 2],[2, 2]"), ElementsAre("[1, 2]", "[2, 2]"));
  EXPECT_THAT(values_of("x=\"a,b\",c"), ElementsAre("\"a,b\"", "c"));
}

TEST(Axis, OfFoldsHasTheirNumber) {
  EXPECT_EQ(parse_axis("data.fold=0..2/3")->values, (std::vector<std::string>{"0/3", "1/3", "2/3"}));
  EXPECT_FALSE(parse_axis("data.source=a..b/c"));
}

TEST(Axis, IsNoneOfAWordWithOneValue) {
  for (const char* word : {"total=10 epochs", "model.depths=[1, 2]", "optimizer.lr=cosine(1e-3, warmup=5 %)", "seed", "=1,2",
                           "early_stop=val/loss, patience=5 epochs", "data.source=folder(../images)"}) {
    EXPECT_FALSE(parse_axis(word)) << word;
  }
}

TEST(Axis, MistakesAreUsageErrors) {
  for (const char* word : {"seed=4..0", "seed=0..1000", "lr=1,,2", "lr=1,2,1"}) EXPECT_THROW(parse_axis(word), Error) << word;
  EXPECT_THROW(grid({{"a", std::vector<std::string>(1000, "1")}, {"b", std::vector<std::string>(1000, "1")}}), Error);
}

TEST(Variants, AreAllChoicesWithTheLastChangingFirst) {
  std::vector<std::string> texts;
  for (const Variant& variant : grid({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}})) texts.push_back(text_of(variant));
  EXPECT_THAT(texts, ElementsAre("a=1 b=x", "a=1 b=y", "a=1 b=z", "a=2 b=x", "a=2 b=y", "a=2 b=z"));
}

TEST(Variants, ASampleHasEachOnceAndIsDrawnBySeed) {
  const std::vector<Axis> axes{*parse_axis("a=0..9"), *parse_axis("b=0..9")};
  const auto draw = [&](uint64_t seed, int64_t count) {
    std::vector<std::string> texts;
    for (const Variant& variant : sample(axes, count, seed)) texts.push_back(text_of(variant));
    return texts;
  };
  const auto all = draw(1, 1000);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 100u);
  EXPECT_EQ(draw(1, 7), draw(1, 7));
  EXPECT_NE(draw(1, 7), draw(2, 7));
  EXPECT_EQ(draw(1, 7), std::vector<std::string>(all.begin(), all.begin() + 7)) << "more runs keep those there are";
}

TEST(Variants, HaveNamesForDirectories) {
  EXPECT_EQ(file_name_of({{"optimizer.lr", "cosine(1e-3, warmup=5 %)"}, {"seed", "0"}}),
            "optimizer.lr=cosine_1e-3_warmup=5_seed=0");
  EXPECT_EQ(file_name_of({{"x", std::string(200, 'a')}}).size(), 80u);
}

}  // namespace
}  // namespace tessera::sweep
