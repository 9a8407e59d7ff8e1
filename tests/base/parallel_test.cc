#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tessera {
namespace {

TEST(Parallel, VisitsEveryIndexOnceOnThreadsInRange) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> visits(100);
    std::atomic<bool> in_range{true};
    parallel_for(100, threads, [&](int64_t index, int thread) {
      ++visits[static_cast<size_t>(index)];
      if (thread < 0 || thread >= threads) in_range = false;
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
    EXPECT_TRUE(in_range);
  }
  parallel_for(0, 3, [](int64_t, int) { FAIL(); });
}

TEST(Parallel, ThrowsTheFirstFailureAndStops) {
  std::atomic<int> calls{0};
  try {
    parallel_for(1000, 1, [&](int64_t index, int) {
      ++calls;
      if (index >= 3) throw std::runtime_error(std::to_string(index));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
  EXPECT_EQ(calls, 4);
  // Both threads fail at once: the lower index is reported.
  std::atomic<int> waiting{0};
  try {
    parallel_for(2, 2, [&](int64_t index, int) {
      for (++waiting; waiting < 2;) std::this_thread::yield();
      throw std::runtime_error(std::to_string(index));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
}

TEST(Parallel, CountsThreads) {
  EXPECT_EQ(thread_count(3, 100), 3);
  EXPECT_EQ(thread_count(3, 2), 2);
  EXPECT_EQ(thread_count(3, 0), 1);
  EXPECT_GE(thread_count(0, 100), 1);
}

}  // namespace
}  // namespace tessera
