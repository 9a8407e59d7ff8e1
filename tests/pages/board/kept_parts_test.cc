#include "pages/board/kept_parts.h"

#include <gtest/gtest.h>

namespace tessera::board {
namespace {

using namespace std::chrono_literals;

// A clock that stands still but while something is made, which takes two seconds.
struct Kept {
  KeptParts::Clock::time_point now{};
  KeptParts parts{[this] { return now; }};
  int made = 0;

  std::string get(int64_t version, bool trains, const std::string& key = "a") {
    return parts.get(key, version, trains, [this] {
      now += 2s;
      return std::to_string(++made);
    });
  }
};

TEST(KeptParts, AreMadeOnceUntilThereIsNews) {
  Kept it;
  EXPECT_EQ(it.get(0, false), "1");
  EXPECT_EQ(it.get(0, false), "1");
  EXPECT_EQ(it.get(0, false, "b"), "2");
  EXPECT_EQ(it.get(1, false), "3");
  EXPECT_EQ(it.get(1, false), "3");
}

TEST(KeptParts, OfARunThatTrainsTakeAHundredthOfTheTime) {
  Kept it;
  EXPECT_EQ(it.get(0, true), "1");
  EXPECT_EQ(it.get(1, true), "1");
  it.now += 197s;
  EXPECT_EQ(it.get(5, true), "1");
  it.now += 1s;
  EXPECT_EQ(it.get(6, true), "2");
  EXPECT_EQ(it.get(7, true), "2");
  EXPECT_EQ(it.get(7, true, "b"), "3") << "each for itself";
  EXPECT_EQ(it.get(8, false), "4") << "how it ended is shown at once";
}

TEST(KeptParts, AFailureIsTriedAgain) {
  Kept it;
  EXPECT_THROW(it.parts.get("a", 0, true, []() -> std::string { throw 1; }), int);
  EXPECT_EQ(it.get(0, true), "1");
}

}  // namespace
}  // namespace tessera::board
