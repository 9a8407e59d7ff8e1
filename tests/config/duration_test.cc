#include "config/duration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::config {
namespace {

using ::testing::HasSubstr;

TEST(Duration, ParsesEveryUnit) {
  EXPECT_EQ(parse_duration("300 epochs"), (Duration{300, DurationUnit::kEpochs}));
  EXPECT_EQ(parse_duration("1 epoch"), (Duration{1, DurationUnit::kEpochs}));
  EXPECT_EQ(parse_duration(" 10000steps "), (Duration{10000, DurationUnit::kSteps}));
  EXPECT_EQ(parse_duration("1.2e9 examples"), (Duration{1.2e9, DurationUnit::kExamples}));
  EXPECT_EQ(parse_duration("10 %"), (Duration{10, DurationUnit::kPercent}));
  EXPECT_EQ(parse_duration("2.5%"), (Duration{2.5, DurationUnit::kPercent}));
  EXPECT_EQ(parse_duration("10 percent"), (Duration{10, DurationUnit::kPercent}));
  EXPECT_EQ(parse_duration("0 steps"), (Duration{0, DurationUnit::kSteps}));
}

TEST(Duration, PrintsWhatParsesBack) {
  for (const char* text :
       {"300 epochs", "1 step", "1 epoch", "0.5 epochs", "1 %", "12.5 %", "0 steps", "1200000000 examples"}) {
    EXPECT_EQ(to_string(parse_duration(text)), text);
  }
}

TEST(Duration, ErrorsTeachTheUnits) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_duration(text, "r.toml:3");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::kUsage);
      EXPECT_EQ(e.where(), "r.toml:3");
      EXPECT_THAT(e.help(), HasSubstr("\"300 epochs\", \"10000 steps\", \"1.2e9 examples\" or \"10 %\""));
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(message("300"), "`300` has no unit");
  EXPECT_EQ(message("3 hours"), "`3 hours` has the unknown unit `hours`");
  EXPECT_EQ(message("-1 steps"), "`-1 steps` is negative");
  EXPECT_EQ(message("epochs"), "`epochs` is not a duration");
  EXPECT_EQ(message("1 2 steps"), "`1 2 steps` is not a duration");
  EXPECT_EQ(message(""), "`` is not a duration");
}

TEST(Duration, ToStepsRoundsToTheNearest) {
  const auto steps = [](const char* text, int64_t total = 0) { return to_steps(parse_duration(text), 128, 1437, total); };
  EXPECT_EQ(steps("50 steps"), 50);
  EXPECT_EQ(steps("60 epochs"), 674);  // 60 * 1437 / 128 = 673.59
  EXPECT_EQ(steps("1 epoch"), 11);     // 11.23
  EXPECT_EQ(steps("1280 examples"), 10);
  EXPECT_EQ(steps("10 %", 674), 67);
  EXPECT_EQ(steps("2.5 steps"), 2);  // halves to even
  EXPECT_EQ(steps("3.5 steps"), 4);
}

TEST(Duration, ToStepsIsAtLeastOneUnlessZero) {
  EXPECT_EQ(to_steps(parse_duration("1 example"), 128, 1000, 0), 1);
  EXPECT_EQ(to_steps(parse_duration("0.1 %"), 128, 1000, 10), 1);
  EXPECT_EQ(to_steps(parse_duration("0 epochs"), 128, 1000, 0), 0);
}

TEST(Duration, SharesNeedATotalAndLengthsABound) {
  EXPECT_THROW(to_steps(parse_duration("10 %"), 128, 1000, 0), Error);
  EXPECT_THROW(to_steps(parse_duration("1e300 steps"), 128, 1000, 0), Error);
}

}  // namespace
}  // namespace tessera::config
