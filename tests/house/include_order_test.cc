// The rules of the house that the compiler doesn't check: which folder includes which, and that every test is built.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = testing::source_path("");

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct Row {
  std::string folder;
  std::vector<std::string> may_include;
};

// Rows "folder: other other" of a table of folders.
std::vector<Row> read_table(const fs::path& path) {
  std::vector<Row> rows;
  for (const std::string& line : lines_of(path)) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    EXPECT_NE(colon, std::string::npos) << path << ": " << line;
    Row row{line.substr(0, colon), {}};
    for (const std::string& name : split(line.substr(std::min(colon + 1, line.size())), ' ')) {
      if (!name.empty()) row.may_include.push_back(name);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<fs::path> sources_under(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc" || extension == ".def") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The path of an #include "…" line.
std::optional<std::string> included_path(const std::string& line) {
  static const std::regex kInclude("^\\s*#\\s*include\\s*\"([^\"]+)\".*");
  std::smatch match;
  if (!std::regex_match(line, match, kInclude)) return std::nullopt;
  return match[1].str();
}

// The row of a file of src/ in a folder whose sub-folders have rows: "image/codec", or "image/." for one of the folder itself.
std::string sub_folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.has_parent_path() ? parent.string() : parent.string() + "/.";
}

// Each include of `file` that leaves `allowed`, as "file:line: …". `beside` names folders that quoted paths may also start
// from.
std::vector<std::string> violations(const fs::path& file, const std::set<std::string>& folders,
                                    const std::set<std::string>& allowed, const std::vector<fs::path>& beside) {
  std::vector<std::string> found;
  int number = 0;
  for (const std::string& line : lines_of(file)) {
    ++number;
    const auto path = included_path(line);
    if (!path) continue;
    const std::string place = file.lexically_relative(kRoot).string() + ":" + std::to_string(number) + ": ";
    const std::string folder = split(*path, '/')[0];
    const bool is_folder = path->find('/') != std::string::npos && folders.contains(folder);
    if (is_folder && fs::exists(kRoot / "src" / *path)) {
      if (!allowed.contains(folder)) found.push_back(place + "may not include " + *path);
    } else if (std::none_of(beside.begin(), beside.end(), [&](const fs::path& from) { return fs::exists(from / *path); })) {
      found.push_back(place + "there is no " + *path);
    }
  }
  return found;
}

std::set<std::string> with_base(const Row& row) {
  std::set<std::string> allowed(row.may_include.begin(), row.may_include.end());
  allowed.insert(row.folder);
  allowed.insert("base");
  return allowed;
}

class House : public ::testing::Test {
 protected:
  House() : test_rows_(read_table(kRoot / "tests/folders.txt")) {
    for (Row& row : read_table(kRoot / "src/folders.txt")) {
      table_.push_back(row);
      if (row.folder.find('/') != std::string::npos) {
        sub_folders_[row.folder] = with_base(row);
      } else {
        folders_.insert(row.folder);
        rows_.push_back(std::move(row));
      }
    }
  }

  bool has_sub_folders(const std::string& folder) const { return sub_folders_.contains(folder + "/."); }

  std::vector<Row> table_;                                    // every row, in order
  std::map<std::string, std::set<std::string>> sub_folders_;  // each, and what it may include of its folder
  std::vector<Row> rows_, test_rows_;
  std::set<std::string> folders_;
};

TEST_F(House, TableStandsInOrderAndMatchesTheTree) {
  ASSERT_FALSE(table_.empty());
  EXPECT_EQ(table_[0].folder, "base");
  std::set<std::string> above;
  for (const Row& row : table_) {
    EXPECT_TRUE(fs::is_directory(kRoot / "src" / row.folder)) << row.folder << " is in the table but not in src/";
    EXPECT_FALSE(above.contains(row.folder)) << row.folder << " stands twice";
    for (const std::string& name : row.may_include) {
      EXPECT_TRUE(above.contains(name)) << row.folder << " may include " << name << ", which doesn't stand above it";
    }
    above.insert(row.folder);
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    if (entry.is_directory()) {
      EXPECT_TRUE(folders_.contains(entry.path().filename())) << entry.path() << " is not in src/folders.txt";
    }
  }
  for (const Row& row : test_rows_) {
    EXPECT_TRUE(folders_.contains(row.folder)) << row.folder;
    for (const std::string& name : row.may_include) EXPECT_TRUE(folders_.contains(name)) << name;
  }
}

TEST_F(House, SourcesIncludeOnlyWhatTheirRowAllows) {
  size_t files = 0;
  for (const Row& row : rows_) {
    for (const fs::path& file : sources_under(kRoot / "src" / row.folder)) {
      ++files;
      for (const std::string& text : violations(file, folders_, with_base(row), {})) ADD_FAILURE() << text;
    }
  }
  EXPECT_GT(files, 50u);
}

// A header and its source are two. About 25 are what a reader takes in at once.
TEST_F(House, NoFolderShowsMoreThanThirtyEntries) {
  const auto count = [](const fs::path& folder) {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  EXPECT_LE(count(kRoot / "src"), 30);
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (entry.is_directory()) {
      EXPECT_LE(count(entry.path()), 30) << entry.path();
    }
  }
}

TEST_F(House, SubFoldersIncludeOnlyWhatTheirRowAllows) {
  size_t files = 0;
  for (const std::string& folder : folders_) {
    if (!has_sub_folders(folder)) continue;
    for (const fs::path& file : sources_under(kRoot / "src" / folder)) {
      ++files;
      const std::string own = sub_folder_of(file.lexically_relative(kRoot / "src").string());
      ASSERT_TRUE(sub_folders_.contains(own)) << own << " is not in src/folders.txt";
      for (const std::string& line : lines_of(file)) {
        const auto path = included_path(line);
        if (!path || split(*path, '/')[0] != folder) continue;
        EXPECT_TRUE(sub_folders_.at(own).contains(sub_folder_of(*path))) << file << " may not include " << *path;
      }
    }
  }
  EXPECT_GT(files, 50u);
}

TEST_F(House, SubFolderOfAFileAndOfTheFolderItself) {
  EXPECT_EQ(sub_folder_of("image/codec/decode.h"), "image/codec");
  EXPECT_EQ(sub_folder_of("image/image.h"), "image/.");
  EXPECT_EQ(sub_folder_of("data/transform/ops/crop.cc"), "data/transform/ops");
}

TEST_F(House, TestsIncludeOnlyWhatTheirFolderMay) {
  size_t files = 0;
  for (const Row& row : rows_) {
    std::set<std::string> allowed = with_base(row);
    for (const Row& more : test_rows_) {
      if (more.folder == row.folder) allowed.insert(more.may_include.begin(), more.may_include.end());
    }
    for (const fs::path& file : sources_under(kRoot / "tests" / row.folder)) {
      ++files;
      for (const std::string& text : violations(file, folders_, allowed, {kRoot / "tests", file.parent_path()})) {
        ADD_FAILURE() << text;
      }
    }
  }
  EXPECT_GT(files, 5u);
}

TEST_F(House, EveryTestIsBuilt) {
  std::set<std::string> built;
  for (const std::string& line : lines_of(testing::test_sources_path())) built.insert(line);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const std::string name = entry.path().filename();
    if (!name.ends_with("_test.cc")) continue;
    ++files;
    EXPECT_TRUE(built.contains(entry.path().string())) << entry.path() << " belongs to no test program";
  }
  EXPECT_GT(files, 5u);
}

// The check itself must be able to fail.
TEST_F(House, ViolationsAreFound) {
  const fs::path folder = fs::path(::testing::TempDir()) / "house_violations";
  fs::create_directories(folder);
  const fs::path file = folder / "sample.cc";
  std::ofstream(file)
      << "#include \"base/error.h\"\n  # include \"config/section.h\"\n#include <vector>\n#include \"nowhere/x.h\"\n"
      << "// #include \"config/section.h\"\n#include \"sample.cc\"\n";
  EXPECT_EQ(violations(file, folders_, {"base"}, {folder}).size(), 2u);
  EXPECT_EQ(violations(file, folders_, {"base", "config"}, {folder}).size(), 1u);
  EXPECT_EQ(violations(file, folders_, {"base", "config"}, {}).size(), 2u);
}

}  // namespace
}  // namespace tessera
