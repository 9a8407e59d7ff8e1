// Documents name files that are there.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> documents() {
  const fs::path root = testing::source_path("");
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  for (const char* folder : {"docs", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") all.push_back(entry.path());
    }
  }
  return all;
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// `folder/name.h`, from the root of the checkout or of src/. NAME stands for any name.
TEST(Documents, NameFilesThatAreThere) {
  const fs::path root = testing::source_path("");
  const std::regex quoted("`([a-z_]+(?:/[A-Za-z_-]+)*/[A-Za-z_-]+\\.(?:h|cc|def|txt|py|toml))`");
  int64_t found = 0;
  for (const fs::path& document : documents()) {
    const std::string text = text_of(document);
    for (std::sregex_iterator match(text.begin(), text.end(), quoted), end; match != end; ++match) {
      const std::string name = (*match)[1];
      if (name.find("NAME") != std::string::npos) continue;
      ++found;
      EXPECT_TRUE(fs::exists(root / name) || fs::exists(root / "src" / name)) << document << " names " << name;
    }
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace tessera
