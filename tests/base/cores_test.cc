#include "base/cores.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Cores, AreThoseThatTheProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(::getpid(), sizeof before, &before), 0);
  EXPECT_EQ(count_usable_cores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(::getpid(), sizeof one, &one), 0);
  EXPECT_EQ(count_usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(::getpid(), sizeof before, &before), 0);
  EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace tessera
