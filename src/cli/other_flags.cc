#include "cli/other_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/rate_setting.h"
#include "config/other_words.h"
#include "config/section.h"
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
  if (key == "optimizer.lr")  // a bare number there is a schedule of its own, which stays the same
    return "the rate of the recipe's schedule is written lr=3e-4, and another schedule 'optimizer.lr=cosine(3e-4, warmup=5 %)'";
  const std::string example = config::example_of(word, key), topic = key.substr(0, key.find(".NAME"));
  // `total = "90 epochs"` as one word of a shell.
  const std::string value = example.empty() ? "VALUE" : split(example, '"').at(1);
  return fmt::format("a setting of the recipe, which is written {}; tessera help {}",
                     value.find(' ') == std::string::npos ? key + "=" + value : fmt::format("'{}={}'", key, value), topic);
}

namespace {

// "modell.width" -> "model.width"; empty where a part is near none.
std::string meant_key(const std::string& key) {
  std::string meant;
  for (const std::string& part : split(key, '.')) {
    const std::vector<std::string> known = recipe::parts_below(meant);
    const bool any = std::ranges::find(known, "NAME") != known.end();
    const std::string one = any ? part : config::suggest_key(part, known);
    if (one.empty()) return "";
    meant += (meant.empty() ? "" : ".") + one;
  }
  return meant;
}

[[noreturn]] void refuse_key(const std::string& key, const std::string& setting) {
  const std::vector<std::string> parts = split(key, '.');
  std::string meant = meant_key(key);
  if (meant.empty() && parts.size() == 1) meant = key_called(key);
  std::string help;
  if (!meant.empty()) {
    const std::string example = config::example_of(parts.back(), meant);
    help = fmt::format("did you mean `{}`{}?  ", meant, example.empty() ? "" : ", as " + example);
  } else if (std::string other = config::other_help(parts.back()); !other.empty()) {
    throw usage_error(fmt::format("unknown key `{}`", key), "override " + setting, other);
  }
  const std::string topic = split(meant.empty() ? key : meant, '.')[0];
  help += recipe::is_key(topic) ? fmt::format("All keys: tessera help {}", topic) : "All keys: tessera help";
  throw usage_error(fmt::format("unknown key `{}`", key), "override " + setting, help);
}

}  // namespace

void refuse_unknown_settings(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    if (is_rate_setting(setting)) continue;
    const std::string written = config::parse_recipe("", "", {setting}).dump();
    for (const config::Difference& one : config::difference("", written)) {
      if (!recipe::is_key(one.key)) refuse_key(one.key, setting);
    }
  }
}

}  // namespace tessera::cli
