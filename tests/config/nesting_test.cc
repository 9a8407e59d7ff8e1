// Recipes that nest: toml++ and we walk tables by functions that call themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/section.h"

namespace tessera::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string repeat(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string recipe_error(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(text, "deep.toml", overrides);
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::kUsage);
    return e.what();
  }
}

constexpr size_t kMany = 100'000;
const std::string kDotted = repeat("a.", kMany) + "a";

TEST(ParseRecipe, NestsNoDeeperThanStacksReach) {
  const std::string more = fmt::format("\n{} = 1", kDotted);
  for (const std::string& text : {
           kDotted + " = 1",
           fmt::format("[{}]\nb = 1", kDotted),
           "[[" + kDotted + "]]",
           "x = {" + kDotted + " = 1}",
           "x = " + repeat("[", kMany),
           "x = " + repeat("{a=", kMany),
           "x = " + repeat("{a.a.a.a=", 40) + "1" + repeat("}", 40),
           fmt::format("[{}a]\n{}b = 1", repeat("a.", 40), repeat("b.", 40)),
           // What is a string or comment to one reader and not to the other would hide the keys behind it.
           R"(s = """a""""")" + more,
           R"(s = '''a''''')" + more,
           R"(s = """""")" + more,
           R"(t = '\')" + more,
           R"(s = "a # \" ' \\" # ")" + more,
           fmt::format("\"a\".{} = 1", kDotted),
           "s = \"a" + more,
           "[x]\r" + more,
           "# \"\"\"" + more,
       }) {
    EXPECT_THAT(recipe_error(text), AllOf(HasSubstr("nests more than 64 levels deep"), HasSubstr("deep.toml:")))
        << text.substr(0, 40);
  }
  EXPECT_THAT(recipe_error("x = 1\n" + more), HasSubstr("deep.toml:3"));
}

TEST(ParseRecipe, OverridesNestNoDeeperEither) {
  for (const std::string& text : {kDotted + "=1", "x=" + repeat("[", kMany), "x={" + kDotted + "=1}"}) {
    EXPECT_THAT(recipe_error("", {text}), HasSubstr("nests more than 64 levels deep"));
  }
  EXPECT_EQ(recipe_error("", {"x=" + kDotted}), "");  // text without quotes
}

TEST(ParseRecipe, DotsAndBracketsThatNestNothingAreFree) {
  const std::string dots = repeat("a.", 500), brackets = repeat("[", 500);
  for (const std::string& text : {
           "x = \"" + dots + brackets + "\"",
           "x = '" + dots + brackets + "'",
           "x = '''\n" + dots + "\n" + brackets + "'''",
           "x = \"\"\"\\\"\"\" " + dots + "\"\"\"",
           "# " + dots + brackets,
           "x = [" + repeat("1.5, ", 500) + "]",
           "x = [\n" + repeat("  [1.5], # a.b\n", 500) + "]",
           "[a.b]\n[c.d]\n" + repeat("[[e.f]]\ng.h = [{i.j = 1.5}]\n", 100),
           repeat("a.", 63) + "a = 1",
       }) {
    EXPECT_EQ(recipe_error(text), "") << text.substr(0, 40);
  }
}

TEST(ParseRecipe, SizeIsBounded) {
  EXPECT_THAT(recipe_error("x = \"" + std::string(size_t{5} << 20, 'a') + "\""), HasSubstr("more than 4.00 MiB"));
}

}  // namespace
}  // namespace tessera::config
