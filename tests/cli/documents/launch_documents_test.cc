// What documents show of `tessera launch --dry-run` is what it prints.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_program.h"

namespace tessera::cli {
namespace {

struct Shown {
  std::string command, output;
};

// The blocks of a document that begin with such a command: "$ tessera launch … --dry-run …".
std::vector<Shown> shown_in(const std::string& document) {
  std::vector<Shown> all;
  std::istringstream lines(read_file(testing::source_path(document)));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```") {
      in_block = false;
    } else if (line.starts_with("$ tessera launch ") && line.find(" --dry-run ") != std::string::npos) {
      in_block = true;
      all.push_back({line.substr(2), ""});
    } else if (in_block) {
      all.back().output += line + "\n";
    }
  }
  return all;
}

// Of files that are copied, the names alone: where they lie is each machine's own.
std::string without_places(const std::string& text) {
  return std::regex_replace(text, std::regex("(\n#   [^ \n]+ +)[^ \n]*/"), "$1");
}

TEST(LaunchDocuments, ShowWhatADryRunPrints) {
  TempFolder folder;
  write_file(folder / "libtpu.so", "");
  fs::create_directory_symlink(testing::source_path("recipes"), folder / "recipes");
  const std::string program = testing::program_path();
  int64_t found = 0;
  for (const std::string document : {"docs/devices/hosts.md", "docs/devices/pod.md"}) {
    for (const Shown& shown : shown_in(document)) {
      ++found;
      const std::string command = "cd " + folder.path().string() + " && PATH=" + fs::path(program).parent_path().string() +
                                  ":$PATH " + (document == "docs/devices/pod.md" ? "TESSERA_PLUGIN_PATH=libtpu.so " : "") +
                                  shown.command + " > out 2> err";
      EXPECT_EQ(std::system(command.c_str()), 0) << shown.command << "\n" << read_file(folder / "err");
      EXPECT_EQ(without_places(shown.output), without_places(read_file(folder / "out"))) << document << ": " << shown.command;
    }
  }
  EXPECT_GE(found, 5);
}

}  // namespace
}  // namespace tessera::cli
