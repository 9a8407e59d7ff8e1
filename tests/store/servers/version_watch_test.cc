#include "store/servers/version_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "store/servers/object_server.h"

namespace tessera::store {
namespace {

using ::testing::HasSubstr;

// A server that says what its object's tag is, or fails.
class VersionWatchTest : public ::testing::Test {
 protected:
  VersionWatch watch(std::string tag, std::chrono::milliseconds every) {
    return {std::move(tag),
            [this] {
              ++asked_;
              if (fails_) throw ServerError("busy", "", true);
              return std::exchange(damaged_, false) ? "two" : now_;
            },
            every};
  }
  template <class Call>
  static std::string refusal(Call&& call) {
    try {
      call();
    } catch (const ServerError& error) {
      EXPECT_FALSE(error.passes());
      return error.what();
    }
    return "";
  }

  std::string now_ = "one";
  int asked_ = 0;
  bool fails_ = false;
  bool damaged_ = false;  // its next answer
};

TEST_F(VersionWatchTest, AnotherVersionIsRefusedFromThenOn) {
  VersionWatch watched = watch("one", std::chrono::milliseconds(0));
  watched.read();
  fails_ = true;
  now_ = "two";
  watched.read();
  watched.failed();
  fails_ = false;
  EXPECT_THAT(refusal([&] { watched.read(); }), HasSubstr("another version of it took its place"));
  now_ = "one";
  EXPECT_NE(refusal([&] { watched.read(); }), "") << "what was read in between may be mixed";
}

TEST_F(VersionWatchTest, AsksNowAndThenAndWhereReadingFails) {
  VersionWatch watched = watch("one", std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) watched.read();
  EXPECT_EQ(asked_, 0);
  watched.failed();
  EXPECT_EQ(asked_, 1);
  now_ = "two";
  watched.read();
  EXPECT_NE(refusal([&] { watched.failed(); }), "");
}

TEST_F(VersionWatchTest, OneAnswerIsNotBelieved) {
  VersionWatch watched = watch("one", std::chrono::milliseconds(0));
  damaged_ = true;
  watched.read();
  EXPECT_EQ(asked_, 2);
  watched.failed();
}

TEST_F(VersionWatchTest, WithoutATagNothingIsAsked) {
  VersionWatch watched = watch("", std::chrono::milliseconds(0));
  watched.read();
  watched.failed();
  EXPECT_EQ(asked_, 0);
  VersionWatch told_later = watch("one", std::chrono::milliseconds(0));
  now_ = "";
  told_later.read();
}

}  // namespace
}  // namespace tessera::store
