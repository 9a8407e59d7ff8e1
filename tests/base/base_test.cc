// Randomness, permutation, shapes, names and patterns.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "base/shape.h"
#include "base/text/pattern.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Philox, GivesTheKnownAnswers) {  // Random123's kat_vectors, philox4x32 10
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Rng, StreamsAreFunctionsOfTheirNames) {
  EXPECT_EQ(Rng(1, 2, 3).next(), Rng(1, 2, 3).next());
  std::set<uint32_t> first;
  for (uint64_t a = 0; a < 20; ++a) {
    for (uint64_t b = 0; b < 20; ++b) first.insert(Rng(7, a, b).next());
  }
  first.insert(Rng(8, 0, 0).next());
  first.insert(Rng(7, uint64_t{1} << 40, 0).next());
  EXPECT_EQ(first.size(), 402u);
}

TEST(Rng, DrawsWithTheRightMoments) {
  Rng rng(11);
  double sum = 0, squares = 0, uniform = 0;
  std::vector<int> counts(7);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = rng.normal(), u = rng.uniform();
    sum += x, squares += x * x, uniform += u;
    ASSERT_TRUE(u >= 0 && u < 1);
    ++counts[rng.below(7)];
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.04);
  EXPECT_NEAR(uniform / kDraws, 0.5, 0.01);
  for (const int c : counts) EXPECT_NEAR(c, kDraws / 7.0, 250);
}

TEST(Permute, IsAPermutationForEverySizeAndDiffersByKey) {
  for (const uint64_t n : {1u, 2u, 3u, 10u, 64u, 1000u, 1437u}) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) seen.insert(permute(i, n, 42));
    EXPECT_EQ(seen.size(), n);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += permute(i, 1000, 1) == permute(i, 1000, 2);
  EXPECT_LT(same, 10);
}

TEST(HashName, IsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ull);
}

TEST(Shapes, NamesAndSizes) {
  EXPECT_EQ(to_string(TensorType{DType::kBF16, {2, 3}}), "bf16[2, 3]");
  EXPECT_EQ(byte_count({DType::kF64, {2, 3}}), 48);
  EXPECT_EQ(byte_count({DType::kF32, {}}), 4);
  EXPECT_EQ(parse_dtype("u8"), DType::kU8);
  try {
    parse_dtype("float");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("bf16"));
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bf16_to_float(float_to_bf16(1.0F)), 1.0F);
  EXPECT_EQ(float_to_bf16(1.00390625F), 0x3f80);  // half way: to even
  EXPECT_EQ(float_to_bf16(1.01171875F), 0x3f82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
}

TEST(NearestName, FindsSlipsAndNotStrangers) {
  const std::vector<std::string> names{"learning_rate", "optimizer", "weight_decay", "clip"};
  EXPECT_EQ(nearest_name("optimiser", names), "optimizer");
  EXPECT_EQ(nearest_name("wieght_decay", names), "weight_decay");
  EXPECT_EQ(nearest_name("optim", names), "optimizer");
  EXPECT_EQ(nearest_name("xyz", names), std::nullopt);
  EXPECT_EQ(suggest_name("xyz", {"a", "b"}), "known: a, b");
  // Minutes, if it were compared letter by letter.
  EXPECT_EQ(nearest_name(std::string(10 << 20, 'a'), std::vector<std::string>(1000, std::string(100, 'a'))), std::nullopt);
}

TEST(Human, Figures) {
  EXPECT_EQ(human_count(22050664), "22,050,664");
  EXPECT_EQ(human_count(-1000), "-1,000");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_duration(3.21), "3.2 s");
  EXPECT_EQ(human_duration(312), "5:12");
  EXPECT_EQ(human_duration(7390), "2:03:10");
}

TEST(Pattern, MatchesWholeNamesFirstWins) {
  PatternRules<int> rules{{{Pattern(".*/bias"), 1}, {Pattern("head/.*"), 2}}};
  EXPECT_EQ(*rules.find("head/bias"), 1);
  EXPECT_EQ(*rules.find("head/kernel"), 2);
  EXPECT_EQ(rules.find("xhead/kernel"), nullptr);
  try {
    Pattern("(", "optimizer.freeze");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("optimizer.freeze"));
  }
}

std::string pattern_error(const std::string& text) {
  try {
    Pattern pattern(text, "optimizer.freeze");
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::kUsage);
    EXPECT_EQ(e.where(), "optimizer.freeze");
    return e.what();
  }
}

TEST(Pattern, SaysWhatToWriteInsteadOfLookAround) {
  for (const char* text : {"(?!head/).*", ".*(?=/bias)", "(?<!head)/bias", "(?<=head)/bias"}) {
    EXPECT_THAT(pattern_error(text), HasSubstr("the first that matches wins")) << text;
  }
  EXPECT_THAT(pattern_error("(a|b)/\\1"), HasSubstr("no back-references"));
  EXPECT_THAT(pattern_error("["), HasSubstr("missing ]"));
}

// Each took std::regex for ever, or its stack, or all memory.
TEST(Pattern, HostilePatternsAndNamesEnd) {
  const std::string name(100'000, 'a');
  EXPECT_FALSE(Pattern("(a*)*b").matches(name));
  EXPECT_FALSE(Pattern("(a|a)*b").matches(name));
  EXPECT_TRUE(Pattern("(.|/)*").matches(name));
  EXPECT_TRUE(Pattern(std::string(2000, '(') + std::string(2000, ')')).matches(""));
  EXPECT_THAT(pattern_error("((((((a{100}){100}){100}){100}){100}){100})"), HasSubstr("not a regular expression"));
  EXPECT_THAT(pattern_error(std::string(100'000, '(')), HasSubstr("100000 characters"));
}

TEST(Pattern, MatchesNamesByteByByte) {
  EXPECT_TRUE(Pattern("block.").matches("block\xff"));
  EXPECT_TRUE(Pattern("blöcke/.*").matches("blöcke/0"));
  EXPECT_FALSE(Pattern("block").matches(std::string("block\0", 6)));
}

TEST(Error, SaysWhatWhereAndWhatToDo) {
  EXPECT_STREQ(usage_error("unknown key `a`", "x.toml:3", "did you mean `b`?").what(),
               "unknown key `a`\n  --> x.toml:3\nhelp: did you mean `b`?");
  EXPECT_THROW(TESSERA_CHECK(1 == 2, "n = {}", 3), InternalError);
}

}  // namespace
}  // namespace tessera
