#include "base/text/digits.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

TEST(Digits, AreWholeNumbers) {
  EXPECT_EQ(parse_digits("0"), 0);
  EXPECT_EQ(parse_digits("007"), 7);
  EXPECT_EQ(parse_digits("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "-0", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "9223372036854775808", "x"}) {
    EXPECT_FALSE(parse_digits(text)) << text;
  }
}

}  // namespace
}  // namespace tessera
