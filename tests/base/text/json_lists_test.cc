#include "base/text/json_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The elements of `list`, as JSON.
std::vector<std::string> elements(const std::string& text, const std::string& list = "list",
                                  const std::vector<std::string>& fields = {"a", "b"}) {
  std::vector<std::string> out;
  read_json_lists(text, "file.json", {{list, fields, [&](nlohmann::json&& element) { out.push_back(element.dump()); }}});
  return out;
}

std::string error_of(const std::string& text) {
  try {
    elements(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kData);
    EXPECT_EQ(error.where(), "file.json");
    return error.message();
  }
  return "read";
}

TEST(JsonLists, GiveTheFieldsThatAreAskedFor) {
  EXPECT_THAT(
      elements(
          R"({"other": [{"a": 1}], "list": [{"a": 1, "c": 2}, {}, {"b": "x\u00e4", "a": [1, {"b": 3}]}, {"a": null, "b": -2.5}],
                           "list2": {"a": [3]}, "n": 1})"),
      ElementsAre(R"({"a":1})", "{}", R"({"b":"xä"})", R"({"a":null,"b":-2.5})"));
  EXPECT_THAT(elements("{}"), IsEmpty());
  EXPECT_THAT(elements(R"({"list": []})"), IsEmpty());
  // Fields of objects inside an element are none of its own.
  EXPECT_THAT(elements(R"({"list": [{"c": {"a": 7}, "b": 1}]})"), ElementsAre(R"({"b":1})"));
}

TEST(JsonLists, SeveralAtOnce) {
  std::vector<std::string> out;
  const auto take = [&](nlohmann::json&& element) { out.push_back(element.dump()); };
  read_json_lists(R"({"x": [{"a": 1}], "y": [{"a": 2, "b": true}]})", "f", {{"y", {"b"}, take}, {"x", {"a"}, take}});
  EXPECT_THAT(out, ElementsAre(R"({"a":1})", R"({"b":true})"));
}

TEST(JsonLists, RefuseWhatIsNone) {
  EXPECT_THAT(error_of(R"([{"a": 1}])"), HasSubstr("it is no object"));
  EXPECT_THAT(error_of("3"), HasSubstr("it is no object"));
  EXPECT_THAT(error_of(R"({"list": 3})"), HasSubstr("`list` is no list"));
  EXPECT_THAT(error_of(R"({"list": {"a": 1}})"), HasSubstr("`list` is no list"));
  EXPECT_THAT(error_of(R"({"list": [3]})"), HasSubstr("an element that is no object"));
  EXPECT_THAT(error_of(R"({"list": [[3]]})"), HasSubstr("an element that is no object"));
  EXPECT_THAT(error_of(R"({"list": [{"a": 1)"), HasSubstr("is not JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("is not JSON"));
  const std::string deep(100 * kMaxJsonDepth, '[');
  EXPECT_THAT(error_of(R"({"list": [{"a": )" + deep), HasSubstr("levels deep"));
}

TEST(JsonLists, LetOutWhatTheReaderThrows) {
  EXPECT_THROW(
      read_json_lists(R"({"list": [{"a": 1}]})", "f", {{"list", {}, [](nlohmann::json&&) { throw data_error("enough"); }}}),
      Error);
}

}  // namespace
}  // namespace tessera
