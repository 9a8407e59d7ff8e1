// What web servers say that they should not.
#include "store/servers/web_answers.h"

#include <gtest/gtest.h>

#include <map>

namespace tessera::store {
namespace {

TEST(WebAnswers, LengthsAreNoNegativeNumbers) {
  EXPECT_EQ(parse_length("12"), 12);
  for (const char* text : {"", "-5", "1.5", " 1", "9223372036854775808"}) EXPECT_FALSE(parse_length(text)) << text;
  EXPECT_EQ(parse_content_range("bytes 3-4/12").first, 3);
  EXPECT_EQ(parse_content_range("bytes 3-4/12").size, 12);
  EXPECT_EQ(parse_content_range("bytes */0").size, 0);
  EXPECT_FALSE(parse_content_range("bytes 0-0/-5").size);
  EXPECT_FALSE(parse_content_range("bytes 0-0/*").size);
}

TEST(WebAnswers, LinksLeadToTheNextPage) {
  EXPECT_EQ(next_page("<http://a/b>; rel=\"next\""), "http://a/b");
  EXPECT_EQ(next_page("<http://a/b>; rel=\"prev\""), "");
  EXPECT_EQ(next_page(">x<; rel=\"next\""), "");
}

TEST(WebAnswers, NamesInAListingStayBelowItsFolder) {
  const auto listed = [](const std::string& json, const std::string& folder) {
    std::map<std::string, int64_t> found;
    read_hub_tree(json, folder, [&](const std::string& name, const ObjectInfo& info) { found[name] = info.size; });
    return found;
  };
  const std::string tail = R"(", "type": "file", "size": 7, "oid": "a"})";
  const std::map<std::string, int64_t> inside = {{"b", 7}}, below_root = {{"a/b", 7}, {"ab/c", 7}};
  const std::string page = R"([{"path": "a/b)" + tail + R"(, {"path": "a/../../b)" + tail + R"(, {"path": "a//b)" + tail +
                           R"(, {"path": "ab/c)" + tail + "]";
  EXPECT_EQ(listed(page, "a"), inside);
  EXPECT_EQ(listed(page, ""), below_root);
}

TEST(WebAnswers, WhatIsNoListingIsRefused) {
  const auto read = [](const std::string& entry) {
    read_hub_tree("[" + entry + "]", "", [](const std::string&, const ObjectInfo&) {});
  };
  read(R"({"path": "x", "type": "file", "size": 7, "oid": "a"})");
  for (const char* entry :
       {"1", "{}", R"({"path": 1})", R"({"path": "x", "type": "file", "size": 1e300, "oid": "a"})",
        R"({"path": "x", "type": "file", "size": -1, "oid": "a"})", R"({"path": "x", "type": "file", "size": 7})", "]"}) {
    EXPECT_THROW(read(entry), ServerError) << entry;
  }
}

}  // namespace
}  // namespace tessera::store
