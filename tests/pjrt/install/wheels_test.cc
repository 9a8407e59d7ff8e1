// The pinned wheels are those that ./dev fetches.
#include "pjrt/install/wheels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "store/temp_dir.h"
#include "support/paths.h"

namespace tessera::plugins {
namespace {

using pjrt::Platform;

TEST(Wheels, AgreeWithTheSetUpList) {
  std::map<std::string, std::pair<std::string, std::string>> listed;
  std::istringstream lines(testing::slurp(testing::source_path("tools/setup/plan.txt")));
  const std::regex entry("([a-z0-9-]+)==([0-9.]+) --hash=sha256:([0-9a-f]{64})");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, entry)) listed[match[1]] = {match[2], match[3]};
  }
  ASSERT_GE(listed.size(), 4u);
  for (const Platform platform : {Platform::kTpu, Platform::kCuda}) {
    for (const Wheel& wheel : pinned_wheels(platform)) {
      EXPECT_TRUE(std::regex_match(wheel.sha256, std::regex("[0-9a-f]{64}"))) << wheel.name;
      EXPECT_GT(wheel.bytes, 1'000'000) << wheel.name;
      EXPECT_GT(wheel.unpacked, wheel.bytes) << wheel.name;
      const auto found = listed.find(wheel.name);
      if (found == listed.end()) continue;
      EXPECT_EQ(found->second, (std::pair{wheel.version, wheel.sha256})) << wheel.name;
      listed.erase(found);
    }
  }
  EXPECT_TRUE(listed.empty()) << listed.begin()->first << " is in tools/setup/plan.txt alone";
}

TEST(Wheels, AreEachThereOnce) {
  std::set<std::string> names, hashes;
  size_t count = 0;
  for (const Platform platform : {Platform::kTpu, Platform::kCuda}) {
    for (const Wheel& wheel : pinned_wheels(platform)) {
      names.insert(wheel.name);
      hashes.insert(wheel.sha256);
      ++count;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_EQ(hashes.size(), count);
  EXPECT_TRUE(pinned_wheels(Platform::kCpu).empty());
}

}  // namespace
}  // namespace tessera::plugins
