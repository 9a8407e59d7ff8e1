#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/text/shell.h"
#include "base/text/text.h"
#include "cli/other_flags.h"

namespace tessera::cli {
namespace {

std::string environment_name(std::string_view flag) {
  std::string name = "TESSERA_";
  for (const char c : flag.substr(2)) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool read_switch(const std::string& text, const std::string& name) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw usage_error(fmt::format("`{}` is on or off, and is \"{}\"", name, text), {}, "write 1 or 0");
}

// 6090, localhost:6090 or 0.0.0.0:6090: no recipe, folder or image has such a name.
bool is_address(std::string_view word) {
  const std::string_view port = word.substr(word.rfind(':') + 1);  // npos + 1: all of it
  return !port.empty() && word.find('/') == std::string_view::npos &&
         std::ranges::all_of(port, [](unsigned char c) { return std::isdigit(c); });
}

int64_t read_integer(const std::string& text, const std::string& name, const Bounds& bounds) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    throw usage_error(fmt::format("`{}` takes a whole number, and is \"{}\"", name, text));
  }
  if (value < bounds.least) throw usage_error(fmt::format("`{}` must be at least {}, and is {}", name, bounds.least, value));
  if (value > bounds.most) {
    throw usage_error(fmt::format("`{}` must be at most {}, and is {}", name, bounds.most, value), {},
                      fmt::format("write a number from {} to {}", bounds.least, bounds.most));
  }
  return value;
}

}  // namespace

std::string listed(const OneOf& values) {
  const std::vector<std::string>& texts = values.texts;
  if (texts.size() < 2) return join(texts, "");
  return fmt::format("{} or {}", join({texts.begin(), texts.end() - 1}, ", "), texts.back());
}

Flag& Flags::add(std::string name, std::string placeholder, std::function<void(const std::string&)> set, OneOf values,
                 const std::string& more) {
  Flag& flag = add(std::move(name), std::move(placeholder), std::move(set), listed(values) + more);
  flag.values = std::move(values.texts);
  return flag;
}

Flag& Flags::add(std::string name, std::string placeholder, std::string* target, OneOf values, const std::string& more) {
  Flag& flag = add(std::move(name), std::move(placeholder), target, listed(values) + more);
  flag.values = std::move(values.texts);
  return flag;
}

Flag& Flags::add(std::string name, std::string placeholder, std::function<void(const std::string&)> set, std::string help) {
  Flag flag;
  flag.environment = environment_name(name);
  flag.name = std::move(name);
  flag.placeholder = std::move(placeholder);
  flag.help = std::move(help);
  flag.set = std::move(set);
  return flags_.emplace_back(std::move(flag));
}

Flag& Flags::add(std::string name, bool* target, std::string help) {
  const auto set = [name, target](const std::string& value) { *target = read_switch(value, name); };
  return add(std::move(name), "", set, std::move(help));
}

Flag& Flags::add(std::string name, std::string placeholder, std::string* target, std::string help) {
  return add(
      std::move(name), std::move(placeholder), [target](const std::string& value) { *target = value; }, std::move(help));
}

Flag& Flags::add(std::string name, std::string placeholder, std::optional<int64_t>* target, Bounds bounds, std::string help) {
  const auto set = [name, target, bounds](const std::string& value) { *target = read_integer(value, name, bounds); };
  return add(std::move(name), std::move(placeholder), set, std::move(help));
}

Flag& Flags::add(std::string name, std::string placeholder, int64_t* target, Bounds bounds, std::string help) {
  const auto set = [name, target, bounds](const std::string& value) { *target = read_integer(value, name, bounds); };
  return add(std::move(name), std::move(placeholder), set, std::move(help));
}

void Flags::read_environment() const {
  for (const Flag& flag : flags_) {
    if (!flag.read_environment || flag.environment.empty()) continue;
    const char* value = std::getenv(flag.environment.c_str());
    if (value == nullptr || *value == '\0') continue;
    try {
      flag.set(value);
    } catch (const Error& error) {
      throw Error(error.code(), error.message(), "environment variable " + flag.environment, error.help());
    }
  }
}

const Flag& Flags::find(const std::string& name) const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.name == name) return flag;
    names.push_back(flag.name);
  }
  std::string help = explain_ ? explain_(name) : "";
  if (help.empty()) help = help_for_unknown_flag(name);
  throw usage_error(fmt::format("unknown flag `{}`", name), {}, help.empty() ? suggest_name(name, names) : help);
}

std::vector<std::string> Flags::parse(const std::vector<std::string>& args, size_t& position, bool first_word) {
  std::vector<std::string> words;
  for (; position < args.size(); ++position) {
    const std::string& word = args[position];
    if (word == "--" && !first_word) {
      words.insert(words.end(), args.begin() + static_cast<ptrdiff_t>(position) + 1, args.end());
      position = args.size();
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (first_word) break;
      words.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    if (pass_unknown_ && word != "-h" && std::ranges::find(flags_, word.substr(0, equals), &Flag::name) == flags_.end()) {
      words.push_back(word);
      continue;
    }
    const Flag& flag = find(word == "-h" ? "--help" : word.substr(0, equals));
    const bool again = std::ranges::any_of(given_, [&](const auto& one) { return one.first == flag.name; });
    if (flag.once && again) throw usage_error(fmt::format("`{}` is given twice, and takes one", flag.name));
    std::string text = shell_quoted(word);
    if (equals != std::string::npos) {
      flag.set(word.substr(equals + 1));
    } else if (flag.placeholder.empty()) {
      flag.set("1");
    } else if (flag.placeholder.starts_with('[')) {
      if (position + 1 < args.size() && is_address(args[position + 1])) {
        throw usage_error(fmt::format("`{}` takes its value with an equals sign", flag.name), {},
                          fmt::format("{}={}", flag.name, args[position + 1]));
      }
      flag.set("");
    } else if (position + 1 < args.size()) {
      flag.set(args[++position]);
      text += " " + shell_quoted(args[position]);
    } else {
      throw usage_error(fmt::format("`{}` needs a value", flag.name), {}, fmt::format("{} {}", flag.name, flag.placeholder));
    }
    given_.emplace_back(flag.name, std::move(text));
  }
  return words;
}

std::string Flags::given(const std::vector<std::string_view>& except) const {
  std::string line;
  for (const auto& [name, text] : given_) {
    if (std::ranges::find(except, name) == except.end()) line += " " + text;
  }
  return line;
}

}  // namespace tessera::cli
