// Every target of tests/fuzz has a program and seeds, so that ./dev fuzz leaves none out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first group of all matches.
std::set<std::string> found(const std::string& text, const std::regex& pattern) {
  std::set<std::string> all;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) all.insert((*match)[1]);
  return all;
}

TEST(FuzzTargets, HaveProgramsAndSeeds) {
  const fs::path folder = testing::source_path("tests/fuzz");
  std::set<std::string> targets, seeds, programs;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with("_targets.cc")) continue;
    targets.merge(found(text_of(entry.path()), std::regex(R"re(\{"([a-z0-9_]+)", [a-z0-9_]+, \d+\})re")));
  }
  for (const auto& entry : fs::directory_iterator(folder / "corpus")) {
    if (!fs::is_empty(entry)) seeds.insert(entry.path().filename());
  }
  for (const std::string& names : found(text_of(folder / "CMakeLists.txt"), std::regex(R"(NAMES ([a-z0-9_\s]+)\))"))) {
    programs.merge(found(names, std::regex("([a-z0-9_]+)")));
  }
  EXPECT_GT(targets.size(), 40);
  EXPECT_EQ(programs, targets);
  EXPECT_EQ(seeds, targets);
}

}  // namespace
}  // namespace tessera
