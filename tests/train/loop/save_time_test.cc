#include "train/loop/save_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SaveTime, SaysOnceThatASaveTookHalfOfIt) {
  SaveTime time(seconds(300));
  EXPECT_FALSE(time.warning());
  time.took(milliseconds(149'999));
  EXPECT_FALSE(time.warning());
  time.took(milliseconds(170'200));
  time.took(milliseconds(90));
  EXPECT_THAT(time.warning().value_or(""),
              AllOf(HasSubstr("took 2:50"), HasSubstr("has 300 s"), HasSubstr("`tessera launch --save-timeout 681`")));
  time.took(milliseconds(250'000));
  EXPECT_FALSE(time.warning());
}

TEST(SaveTime, WithoutALimitNothingIsSaid) {
  SaveTime time(std::nullopt);
  time.took(seconds(100'000));
  EXPECT_FALSE(time.warning());
}

}  // namespace
}  // namespace tessera::train
