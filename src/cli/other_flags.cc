#include "cli/other_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "config/other_words.h"
#include "recipe/keys.h"

namespace tessera::cli {
namespace {

// "--batch-size" -> "batch_size"
std::string as_word(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  std::string word(flag);
  std::ranges::replace(word, '-', '_');
  return word;
}

}  // namespace

std::string key_called(std::string_view written) {
  const std::string word = as_word(written);
  std::string best;
  size_t best_parts = 0;
  for (const recipe::SectionKeys& section : recipe::recipe_keys()) {
    for (const config::KeyDoc& doc : section.keys) {
      const std::vector<std::string> parts = split(doc.key, '.');
      if (!best.empty() && parts.size() >= best_parts) continue;
      if (!config::same_key(word, {parts.back()}).empty()) best = doc.key, best_parts = parts.size();
    }
  }
  return best;
}

std::function<std::string(const std::string&)> explain_words(const std::string& words, std::string help) {
  return [known = split(words, ' '), help = std::move(help)](const std::string& flag) {
    return std::ranges::find(known, as_word(flag)) != known.end() ? help : std::string();
  };
}

std::string help_for_unknown_flag(std::string_view flag) {
  const std::string word = as_word(flag);
  if (word.find('.') != std::string::npos) {  // --config.lr is big_vision's
    const std::string key = word.starts_with("config.") ? word.substr(word.find('.') + 1) : word;
    return fmt::format("settings of the recipe have no dashes: {}=VALUE", key);
  }
  if (std::string help = config::other_help(word); !help.empty()) return help;
  const std::string key = key_called(word);
  if (key.empty()) return "";
  const std::string example = config::example_of(word, key), topic = key.substr(0, key.find(".NAME"));
  // `total = "90 epochs"` as one word of a shell.
  const std::string value = example.empty() ? "VALUE" : split(example, '"').at(1);
  return fmt::format("a setting of the recipe, which is written {}; tessera help {}",
                     value.find(' ') == std::string::npos ? key + "=" + value : fmt::format("'{}={}'", key, value), topic);
}

}  // namespace tessera::cli
