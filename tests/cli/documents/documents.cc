#include "cli/documents/documents.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "cli/run_program.h"

namespace tessera::cli {

Words shell_words(const std::string& line) {
  Words words;
  std::string word;
  bool inside = false;
  char quote = 0;
  const auto end_word = [&] {
    if (inside) words.push_back(word);
    word.clear();
    inside = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c, inside = true;
    } else if ((c == '#' && !inside) || c == '|' || c == ';' || c == '&' || c == '>') {
      break;
    } else if (c == ' ') {
      end_word();
    } else {
      word += c, inside = true;
    }
  }
  end_word();
  return words;
}

std::vector<std::string> all_documents() {
  std::vector<std::string> out = {"README.md"};
  const fs::path root = testing::source_path("");
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") out.push_back(entry.path().lexically_relative(root).string());
  }
  std::ranges::sort(out);
  return out;
}

std::vector<Block> blocks_in(const std::string& document) {
  std::vector<Block> out;
  std::istringstream lines(read_file(testing::source_path(document)));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) out.push_back({line.substr(3), ""});
    } else if (inside) {
      out.back().text += line + "\n";
    }
  }
  return out;
}

std::vector<Found> code_in(const std::string& document) {
  std::vector<Found> out;
  std::istringstream lines(read_file(testing::source_path(document)));
  const std::regex inline_code("`([^`]+)`");
  bool block = false, shell = false;
  std::string begun;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block;
      shell = line == "```" || line == "```sh";
    } else if (block && shell) {
      if (line.ends_with(" \\")) {
        begun += line.substr(0, line.size() - 1);
        continue;
      }
      out.push_back({document, begun + line});
      begun.clear();
    } else if (!block) {
      for (std::sregex_iterator match(line.begin(), line.end(), inline_code), end; match != end; ++match)
        out.push_back({document, std::regex_replace((*match)[1].str(), std::regex("\\\\\\|"), "|"), true});
    }
  }
  return out;
}

}  // namespace tessera::cli
