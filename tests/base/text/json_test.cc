#include "base/text/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string repeat(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Json, ReadsWhatOthersWrite) {
  const std::string text = R"({"a": [1, -2, 0.5, true, null, "ü\n"], "b": {}, "big": 18446744073709551615})";
  const JsonResult read = read_json(text);
  EXPECT_EQ(read.problem, "");
  EXPECT_EQ(read.value, nlohmann::json::parse(text));
  EXPECT_EQ(parse_json(text, "a.json"), read.value);
  for (const char* value : {"3", "\"x\"", "null", "[]"}) EXPECT_EQ(read_json(value).value, nlohmann::json::parse(value));
}

TEST(Json, KeepsOrder) {
  const std::string text = R"({"z":{"b":1,"a":[{"y":2,"x":3}]},"a":[]})";
  EXPECT_EQ(parse_ordered_json(text, "a.json").dump(), text);
}

TEST(Json, SaysWhereItIsNone) {
  EXPECT_EQ(read_json("").problem, "line 1, column 1 is not JSON");
  EXPECT_EQ(read_json("{\n  \"a\": x}").problem, "line 2, column 8 is not JSON");
  EXPECT_EQ(read_json("[1] 2").problem, "line 1, column 5 is not JSON");
  EXPECT_EQ(read_json("\"\xff\"").problem, "line 1, column 2 is not JSON");
  EXPECT_EQ(read_json("[1e999]").problem, "the number at line 1, column 6 is too large");
  EXPECT_TRUE(read_json("[1, 2").value.is_null());
  try {
    parse_json("[", "dir/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_EQ(error.where(), "dir/config.json");
    EXPECT_THAT(error.message(), HasSubstr("cannot be read as JSON"));
  }
}

TEST(Json, NestsNoDeeperThanStacksReach) {
  for (const char* open : {"[", "{\"a\":"}) {
    EXPECT_EQ(read_json(repeat(open, 100'000)).problem, "it nests more than 64 levels deep") << open;
    EXPECT_THROW(parse_ordered_json(repeat(open, 1'000'000), "a.json"), Error) << open;
    const char* close = *open == '[' ? "]" : "}";
    const std::string most = repeat(open, 63) + "[]" + repeat(close, 63);
    EXPECT_EQ(read_json(most).problem, "");
    EXPECT_EQ(parse_ordered_json(most, "a.json").dump(), most);
    EXPECT_EQ(read_json(open + most + close).problem, "it nests more than 64 levels deep");
  }
  // Siblings are not deep.
  EXPECT_EQ(read_json("[" + repeat("[[]],", 1000) + "1]").problem, "");
}

TEST(Json, RefusesKeysGivenTwice) {
  EXPECT_EQ(read_json(R"({"a": 1, "b": {"a": 2}, "a": 3})").problem, "the key `a` is given twice in one object");
  EXPECT_THROW(parse_ordered_json(R"([{"a": 1, "a": 1}])", "a.json"), Error);
  EXPECT_EQ(read_json(R"([{"a": 1}, {"a": 1}])").problem, "");
}

TEST(Json, IsBoundedInBytesAndValues) {
  EXPECT_EQ(read_json("[1, 2]", {.bytes = 6}).problem, "");
  EXPECT_THAT(read_json("[1, 2]", {.bytes = 5}).problem, HasSubstr("more than 5 B"));
  EXPECT_EQ(read_json("[1, 2]", {.values = 3}).problem, "");
  EXPECT_EQ(read_json("[1, 2]", {.values = 2}).problem, "it holds more than 2 values");
  EXPECT_EQ(read_json(R"({"a": [], "b": {}})", {.values = 2}).problem, "it holds more than 2 values");
}

// nlohmann's ordered objects compare a new key with all before it: minutes for a file of some megabytes.
TEST(Json, ManyKeysInOrderTakeNoTimeSquared) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += fmt::format("\"{}\":0,", i);
  text.back() = '}';
  EXPECT_EQ(parse_ordered_json(text, "a.json").size(), 200'000u);
}

}  // namespace
}  // namespace tessera
