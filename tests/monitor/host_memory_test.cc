#include "monitor/host_memory.h"

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

}  // namespace
}  // namespace tessera::monitor
