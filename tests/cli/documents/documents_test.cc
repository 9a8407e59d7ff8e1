// Commands in documents are commands of the program: their words, flags and keys of recipes are read by its own tables. Keys in the
// tables of what is typed elsewhere exist.

#include "cli/documents/documents.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "cli/help.h"
#include "cli/run_program.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

constexpr const char* kNoCommand = "no such command";

const std::set<std::string>& known_keys() {
  static const std::set<std::string> keys = [] {
    std::set<std::string> out;
    for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
      for (const config::KeyDoc& doc : section.keys) out.insert(doc.key);
    }
    return out;
  }();
  return keys;
}

bool is_known(const std::string& key) {
  const std::string name = recipe::with_placeholder(key);
  return known_keys().contains(name) ||
         std::ranges::any_of(known_keys(), [&](const std::string& known) { return known.starts_with(name + "."); });
}

const CommandEntry* find_entry(const Words& words, size_t& position) {
  for (const size_t count : {size_t{2}, size_t{1}}) {
    if (words.size() < 1 + count) continue;
    const std::string name = count == 2 ? words[1] + " " + words[2] : words[1];
    for (const CommandEntry& entry : commands()) {
      if (entry.name == name) return position = 1 + count, &entry;
    }
  }
  return nullptr;
}

// What is wrong with the command; empty: nothing.
std::string problem_of(const Words& words) {
  if (words.size() < 2 || words[1].starts_with("-")) return "";  // the program itself, and `tessera -V`
  size_t position = 0;
  const CommandEntry* entry = find_entry(words, position);
  if (entry == nullptr) return group_help(words[1]).empty() ? kNoCommand : "";
  const bool launch = entry->name == "launch", translated = entry->name == "timm" || entry->name == "vit10b";
  Words own = words;
  if (const auto dashes = std::ranges::find(words, "--"); launch && dashes != words.end()) {
    Words rest = {"tessera"};
    rest.insert(rest.end(), dashes + 1, words.end());
    if (std::string problem = problem_of(rest); !problem.empty()) return problem;
    own.assign(words.begin(), dashes);
  }
  const auto command = entry->make();
  Flags flags;
  CommonFlags common;
  command->declare(flags);
  declare_common_flags(flags, common);
  const auto sets = [&](const std::string& key) {
    return std::ranges::any_of(own, [&](const std::string& word) { return word.find(key + "=") != std::string::npos; });
  };
  if (sets("data.fold") && !sets("data.source")) return "no evaluator has the fold: eval.val.data.source=SOURCE";
  try {
    for (const std::string& word : flags.parse(own, position)) {
      std::smatch match;
      const bool takes_keys = entry->name == "train" || entry->name == "eval" || entry->name == "plan" ||
                              entry->name == "sweep" || entry->name == "lr-find" || entry->name.starts_with("data ");
      if (!takes_keys || !std::regex_match(word, match, std::regex("([a-z_]+(\\.[A-Za-z_0-9]+)*)=.*"))) continue;
      const std::string key = match[1];
      if (key == "lr") continue;  // the rate of the recipe's schedule
      if (!is_known(key)) return fmt::format("a recipe has no key `{}`", key);
    }
    for (const std::string& word : own) {
      if (word.starts_with("recipes/") && word.ends_with(".toml") && !translated && !fs::exists(testing::source_path(word)))
        return fmt::format("there is no {}", word);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Documents, ShowCommandsThatThereAre) {
  int64_t commands_found = 0;
  for (const std::string& document : all_documents()) {
    for (const Found& found : code_in(document)) {
      std::string line = found.line.starts_with("$ ") ? found.line.substr(2) : found.line;
      if (line.starts_with("bin/")) line = line.substr(4);
      if (!line.starts_with("tessera ") || line.find("…") != std::string::npos || line.starts_with("tessera [")) continue;
      ++commands_found;
      Words words = shell_words(line);
      if (found.in_text && words.back().starts_with("--")) words.push_back("1");
      const std::string problem = problem_of(words);
      if (found.in_text && words.size() == 2 && problem == kNoCommand) continue;
      EXPECT_EQ(problem, "") << found.document << ": " << found.line;
    }
  }
  EXPECT_GT(commands_found, 200);
  EXPECT_EQ(problem_of({"tessera", "trian", "x.toml"}), kNoCommand);
  EXPECT_THAT(problem_of({"tessera", "train", "x.toml", "--workdri", "a"}), ::testing::HasSubstr("--workdri"));
  EXPECT_THAT(problem_of({"tessera", "train", "x.toml", "optimizer.learning_rate=1"}),
              ::testing::HasSubstr("optimizer.learning_rate"));
  EXPECT_THAT(problem_of({"tessera", "train", "recipes/none.toml"}), ::testing::HasSubstr("there is no recipes/none.toml"));
  EXPECT_THAT(problem_of({"tessera", "sweep", "x.toml", "data.fold=0..4/5"}), ::testing::HasSubstr("no evaluator"));
}

// ./dev says what it can do in its usage.
TEST(Documents, NameCommandsOfDevThatThereAre) {
  const std::string dev = read_file(testing::source_path("dev"));
  int64_t found_commands = 0;
  for (const std::string& document : all_documents()) {
    for (const Found& found : code_in(document)) {
      std::smatch match;
      if (!std::regex_search(found.line, match, std::regex("^\\./dev ([a-z-]+)"))) continue;
      ++found_commands;
      EXPECT_THAT(dev, ::testing::HasSubstr("\n./dev " + match[1].str() + " ")) << document << ": " << found.line;
    }
  }
  EXPECT_GT(found_commands, 10);
}

// `optimizer.lr = "…"`, `eval.val.data.pp`, `total = "90 epochs"`.
TEST(Documents, NameKeysThatThereAre) {
  const std::regex sections(
      "((data|model|objective|optimizer|eval|checkpoint|monitor|guard|average|sharding|model_init)"
      "(\\.[A-Za-z_0-9]+)+)( ?=.*)?");
  const std::regex top("(seed|total|dtype|accumulate|mesh|log|resume|early_stop|eval_at_start|optimization_level)() ?=.*");
  const std::regex file(".*\\.(md|safetensors|json|mlir)");  // model.safetensors
  for (const std::string& document : all_documents()) {
    int64_t found = 0;
    for (const Found& code : code_in(document)) {
      std::smatch match;
      if (!std::regex_match(code.line, match, sections) && !std::regex_match(code.line, match, top)) continue;
      if (std::regex_match(match[1].str(), file)) continue;
      ++found;
      EXPECT_TRUE(is_known(match[1])) << document << " names " << match[1];
    }
    if (document.starts_with("docs/from/")) {
      EXPECT_GT(found, 20) << document;
    }
  }
  EXPECT_FALSE(is_known("optimizer.learning_rate"));
}

}  // namespace
}  // namespace tessera::cli
