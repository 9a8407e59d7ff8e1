#include "monitor/host_usage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::monitor {
namespace {

TEST(HostMemory, IsWhatTheSystemSays) {
  const auto memory = parse_host_memory("MemTotal:       24000000 kB\nMemFree:         1 kB\nMemAvailable:   20000000 kB\n",
                                        "900 250 100 1 0 80 0\n", 4096);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, int64_t{24000000} * 1024);
  EXPECT_EQ(memory->available, int64_t{20000000} * 1024);
  EXPECT_EQ(memory->used(), int64_t{4000000} * 1024);
  EXPECT_EQ(memory->resident, 250 * 4096);
}

TEST(HostMemory, IsNothingWhereTheSystemDoesNotSay) {
  const std::string meminfo = "MemTotal: 1 kB\nMemAvailable: 1 kB\n";
  EXPECT_FALSE(parse_host_memory("", "1 2", 1));
  EXPECT_FALSE(parse_host_memory("MemTotal: x kB\nMemAvailable: 1 kB\n", "1 2", 1));
  EXPECT_FALSE(parse_host_memory(meminfo, "", 1));
  EXPECT_FALSE(parse_host_memory(meminfo, "1 ", 1));
  EXPECT_TRUE(parse_host_memory(meminfo, "1 2", 1));
}

TEST(HostMemory, GrowsWithTheProcess) {
  const auto before = host_memory();
  ASSERT_TRUE(before);
  const std::vector<char> taken(size_t{64} << 20, 'x');
  EXPECT_GT(host_memory()->resident, before->resident + (int64_t{32} << 20)) << taken.size();
  EXPECT_GT(before->total, before->used());
}

TEST(HostTraffic, IsWhatTheSystemSays) {
  const auto traffic = parse_host_traffic(
      "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 7\n");
  ASSERT_TRUE(traffic);
  EXPECT_EQ(traffic->read, 4096);
  EXPECT_EQ(traffic->written, 8192);
  EXPECT_FALSE(parse_host_traffic(""));
  EXPECT_FALSE(parse_host_traffic("rchar: 10\nread_bytes: x\nwrite_bytes: 1\n"));
}

TEST(ProcessorTime, IsWhatTheSystemSays) {
  const auto time = parse_processor_time("cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n", 100, 1.25);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->all, 6.21) << "guests are counted once";
  EXPECT_DOUBLE_EQ(time->busy, 1.71) << "neither idle nor waiting";
  EXPECT_EQ(time->process, 1.25);
  for (const char* bad :
       {"", "cpu", "cpu ", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7", "cpu  1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8"}) {
    EXPECT_FALSE(parse_processor_time(bad, 100, 0)) << bad;
  }
  EXPECT_FALSE(parse_processor_time("cpu  1 2 3 4 5 6 7 8", 0, 0));
}

TEST(ProcessorTime, GrowsWithTheWork) {
  const auto before = processor_time();
  ASSERT_TRUE(before);
  volatile uint64_t sink = 0;
  auto after = before;
  while (after->process - before->process < 0.05) {
    for (int i = 0; i < 100'000; ++i) sink = sink + 1;
    after = processor_time();
    ASSERT_TRUE(after);
  }
  EXPECT_GT(after->all, before->all);
  EXPECT_GE(after->all, after->busy);
}

}  // namespace
}  // namespace tessera::monitor
