#include "pages/board/kept_answers.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::board {
namespace {

http::Request request(const std::string& target) {
  http::Request out;
  EXPECT_TRUE(http::parse_target(target, out));
  return out;
}

http::Response body(const std::string& text) { return {200, "text/plain", text}; }

TEST(KeptAnswers, EndWithTheNextLook) {
  KeptAnswers answers;
  EXPECT_FALSE(answers.get(request("/a?b=1")));
  answers.put(request("/a?b=1"), body("one"), answers.look());
  ASSERT_TRUE(answers.get(request("/a?b=1")));
  EXPECT_EQ(answers.get(request("/a?b=1"))->body, "one");
  for (const char* other : {"/a", "/a?b=2", "/a?b=1&c=", "/a?b1=", "/ab?=1"})
    EXPECT_FALSE(answers.get(request(other))) << other;
  answers.next_look();
  EXPECT_FALSE(answers.get(request("/a?b=1")));
}

TEST(KeptAnswers, WhatWasBegunBeforeALookIsNotKept) {
  KeptAnswers answers;
  const int64_t before = answers.look();
  answers.next_look();
  answers.put(request("/a"), body("old"), before);
  EXPECT_FALSE(answers.get(request("/a")));
}

TEST(KeptAnswers, AreBounded) {
  KeptAnswers answers;
  answers.put(request("/a"), body(std::string((1 << 20) + 1, 'x')), answers.look());
  EXPECT_FALSE(answers.get(request("/a")));
  int kept = 0;
  for (int i = 0; i < 1000; ++i) answers.put(request("/" + std::to_string(i)), body("x"), answers.look());
  for (int i = 0; i < 1000; ++i) kept += answers.get(request("/" + std::to_string(i))).has_value();
  EXPECT_EQ(kept, 64);
}

}  // namespace
}  // namespace tessera::board
