#include "base/text/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::kUsage);
    return e.what();
  }
  return "no error";
}

TEST(Call, ReadsNamesPositionsAndUnits) {
  const Call call = parse_call(" cosine( 1e-3, warmup = 50 steps, list=[1, 2], path='a,b (c)') ");
  EXPECT_EQ(call.name, "cosine");
  ASSERT_EQ(call.args.size(), 4u);
  EXPECT_EQ(call.args[0].value, "1e-3");
  EXPECT_EQ(call.args[1].key, "warmup");
  EXPECT_EQ(call.args[1].value, "50 steps");
  EXPECT_EQ(call.args[2].value, "[1, 2]");
  EXPECT_EQ(call.args[3].value, "a,b (c)");
  EXPECT_TRUE(parse_call("decode").args.empty());
  EXPECT_TRUE(parse_call("decode()").args.empty());
  EXPECT_EQ(parse_call("folder(data/digits/train)").args[0].value, "data/digits/train");
}

TEST(Call, ChainsSplitAtTopLevelOnly) {
  const auto chain = parse_chain("decode | choice(a | b, 2)|flip_lr");
  ASSERT_EQ(chain.size(), 3u);
  EXPECT_EQ(chain[1].args[0].value, "a | b");
  EXPECT_EQ(chain[2].name, "flip_lr");
}

TEST(Call, MistakesShowTheText) {
  EXPECT_THAT(error_of([] { parse_call("resize(224"); }), HasSubstr("resize(224"));
  EXPECT_THAT(error_of([] { parse_call("resize(a]b)"); }), HasSubstr("unbalanced"));
  EXPECT_THAT(error_of([] { parse_call("resize('a)"); }), HasSubstr("unclosed quote"));
  EXPECT_THAT(error_of([] { parse_call("resize(1,,2)"); }), HasSubstr("empty argument"));
  EXPECT_THAT(error_of([] { parse_call("resize 224"); }), HasSubstr("name(argument"));
  EXPECT_THAT(error_of([] { parse_chain("decode | ", "data.pp"); }), HasSubstr("data.pp"));
}

TEST(Call, BracketsNestNoDeeperThanStacksReach) {
  for (const char open : {'(', '[', '{'}) {
    const std::string deep(100'000, open);
    EXPECT_THAT(error_of([&] { parse_call("choice(" + deep + ")"); }), HasSubstr("stand in one another"));
    EXPECT_THAT(error_of([&] { parse_chain("choice(" + deep, "data.pp"); }), HasSubstr("data.pp"));
  }
  EXPECT_LT(error_of([&] { parse_call("choice(" + std::string(100'000, '(')); }).size(), 1000u);
  EXPECT_EQ(parse_call("a" + std::string(65, '(') + std::string(65, ')')).args[0].value.size(), 128u);
  std::string slashes;
  for (int i = 0; i < 100'000; ++i) slashes += "1/";
  EXPECT_FALSE(parse_number(slashes + "1"));
}

TEST(CallReader, ReadsEachArgumentOnce) {
  const Call call = parse_call("op(3, scale=[0.08, 1], flag=true, ratio=3/4)");
  CallReader r(call);
  EXPECT_EQ(r.integer("size"), 3);
  EXPECT_THAT(r.numbers("scale"), ElementsAre(0.08, 1));
  EXPECT_TRUE(r.boolean("flag", false));
  EXPECT_EQ(r.number("ratio"), 0.75);
  EXPECT_EQ(r.text("mode", "fast"), "fast");
  EXPECT_NO_THROW(r.finish());
}

TEST(CallReader, TeachesWhatItTakes) {
  const auto reading = [](const char* text) {
    return error_of([&] {
      const Call call = parse_call(text);
      CallReader r(call, "data.pp");
      r.integer("size");
      r.text("interpolation", "bilinear");
      r.finish();
    });
  };
  EXPECT_THAT(reading("resize(224, interpolatoin=bicubic)"),
              AllOf(HasSubstr("unknown argument"), HasSubstr("did you mean `interpolation`?")));
  EXPECT_THAT(reading("resize()"), HasSubstr("`size` is missing"));
  EXPECT_THAT(reading("resize(2.5)"), HasSubstr("whole number"));
  EXPECT_THAT(reading("resize(big)"), HasSubstr("must be a number, not `big`"));
  EXPECT_THAT(reading("resize(1, bicubic, 3)"), HasSubstr("too many arguments"));
  EXPECT_THAT(reading("resize(1, size=2)"), HasSubstr("given twice"));
}

TEST(Numbers, AreWholeTexts) {
  EXPECT_EQ(parse_number(" 1e-3 "), 1e-3);
  EXPECT_EQ(parse_number("3/4"), 0.75);
  EXPECT_FALSE(parse_number("3x"));
  EXPECT_FALSE(parse_number(""));
  EXPECT_FALSE(parse_number("1/0"));
}

}  // namespace
}  // namespace tessera
