// A failed check of ours (InternalError, base/error.h) ends the program, whichever thread it fails on: a handler of all
// exceptions hands on what it caught, keeps it for whoever waits, or stands behind one that lets InternalError through.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kSources = testing::source_path("src");

// Numbers, from 1, of the lines with a handler that swallows InternalError. Lines are formatted as clang-format does it.
std::vector<size_t> swallowing_handlers(const std::vector<std::string>& lines) {
  static const std::regex kHandler(R"(^(\s*)\} catch \((const std::exception&.*|\.\.\.)\) \{.*)");
  std::vector<size_t> found;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, kHandler)) continue;
    const std::string end = match[1].str() + "}", begin = match[1].str() + "try {";
    bool passes = false;
    for (size_t j = i + 1; j < lines.size() && !lines[j].starts_with(end); ++j) {
      passes = passes || lines[j].ends_with(" throw;") || lines[j].find("current_exception()") != std::string::npos;
    }
    for (size_t j = i; j-- > 0 && lines[j] != begin;)
      passes = passes || lines[j].starts_with(end + " catch (const InternalError&)");
    if (!passes) found.push_back(i + 1);
  }
  return found;
}

TEST(Catch, FailedChecksPass) {
  // They look at an exception that whoever called them hands on.
  const std::set<std::string> lookers = {"cli/crash.cc", "cli/exhausted.cc", "train/process/processes.cc", "train/trainer.cc"};
  for (const auto& entry : fs::recursive_directory_iterator(kSources)) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    const std::string name = entry.path().lexically_relative(kSources).string();
    if (lookers.contains(name)) continue;
    std::ifstream file(entry.path());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    for (const size_t line : swallowing_handlers(lines)) {
      ADD_FAILURE() << "src/" << name << ":" << line
                    << ": this handler swallows failed checks; put `catch (const InternalError&) { throw; }` before it";
    }
  }
}

// The check itself must be able to fail.
TEST(Catch, SwallowingHandlersAreFound) {
  const std::vector<std::string> swallowed = {"  try {", "    a();", "  } catch (const std::exception& error) {", "    b();",
                                              "  }"};
  EXPECT_EQ(swallowing_handlers(swallowed), std::vector<size_t>{3});
  EXPECT_EQ(swallowing_handlers({"  try {", "  } catch (...) {", "    throw;", "  }"}), std::vector<size_t>{});
  std::vector<std::string> passed = swallowed;
  passed.insert(passed.begin() + 2, {"  } catch (const InternalError&) {", "    throw;"});
  EXPECT_EQ(swallowing_handlers(passed), std::vector<size_t>{});
  passed.insert(passed.end(), swallowed.begin(), swallowed.end());
  EXPECT_EQ(swallowing_handlers(passed), std::vector<size_t>{10}) << "the handler before it is of another block";
}

}  // namespace
}  // namespace tessera
