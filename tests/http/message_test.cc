#include "http/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::http {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Message, TargetsAreTakenApart) {
  Request request;
  ASSERT_TRUE(parse_target("/api/metrics?run=a%20b&keys=val%2Fprec%401,loss&x&=1&plus=a+b", request));
  EXPECT_EQ(request.path, "/api/metrics");
  EXPECT_THAT(request.query, ElementsAre(Pair("run", "a b"), Pair("keys", "val/prec@1,loss"), Pair("x", ""), Pair("", "1"),
                                         Pair("plus", "a b")));
  EXPECT_EQ(request.parameter("run"), "a b");
  EXPECT_EQ(request.parameter("none"), std::nullopt);
  ASSERT_TRUE(parse_target("/a+b%2f..%2F", request));
  EXPECT_EQ(request.path, "/a+b/../") << "'+' is a space in queries alone";
  EXPECT_TRUE(request.query.empty());
}

TEST(Message, WhatIsNoTargetIsRefused) {
  Request request;
  for (const char* target :
       {"", "api", "http://localhost/", "*", "/%", "/%4", "/%zz", "/%00", "/a?b=%", "/a?%0g=1", "/a?b=%00"}) {
    EXPECT_FALSE(parse_target(target, request)) << target;
  }
}

TEST(Message, CookiesAreFound) {
  Request request;
  EXPECT_EQ(request.cookie("a"), std::nullopt);
  request.headers = {{"cookie", "xa=1; a=2=3;b=4 ;  c"}};
  EXPECT_EQ(request.cookie("a"), "2=3");
  EXPECT_EQ(request.cookie("b"), "4");
  EXPECT_EQ(request.cookie("c"), std::nullopt);
}

}  // namespace
}  // namespace tessera::http
