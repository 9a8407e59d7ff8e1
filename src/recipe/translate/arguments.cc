#include "recipe/translate/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::translate {
namespace {

// "--batch-size" -> "batch_size"
std::string as_name(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string name(word);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> names_of(const Argument& argument) { return split(argument.names, ' '); }

// As Python writes them: 1e-3, .5, 300.
std::optional<double> parse_float(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A value may begin with a dash where it is a number.
bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-' && !parse_float(word); }

bool takes_several(Takes takes) { return takes == Takes::kNumbers || takes == Takes::kTexts; }

void check_value(const Argument& argument, const std::string& word, const std::string& where) {
  const bool number = argument.takes == Takes::kNumber || argument.takes == Takes::kNumbers;
  const bool integer = argument.takes == Takes::kInteger;
  if (!number && !integer) return;
  const std::optional<double> value = parse_float(word);
  if (value && std::isfinite(*value) && (!integer || (*value == std::floor(*value) && std::abs(*value) < 1e15))) return;
  throw usage_error(
      fmt::format("`{}` takes {}, and is `{}`", long_name(argument), integer ? "a whole number" : "a number", word), where);
}

}  // namespace

std::string long_name(const Argument& argument) { return names_of(argument)[0]; }

const Argument& Arguments::find(const std::string& word, const std::string& where) const {
  std::vector<std::string> all;
  std::vector<const Argument*> beginnings;
  for (const Argument& argument : table_) {
    const std::vector<std::string> names = names_of(argument);
    for (const std::string& name : names) {
      if (as_name(name) == as_name(word) && name.starts_with("--") == word.starts_with("--")) return argument;
      all.push_back(name);
    }
    if (word.starts_with("--") && names[0].starts_with(word)) beginnings.push_back(&argument);
  }
  if (beginnings.size() == 1) return *beginnings[0];
  if (beginnings.size() > 1) {
    std::vector<std::string> names;
    for (const Argument* argument : beginnings) names.push_back(long_name(*argument));
    throw usage_error(fmt::format("`{}` may be {}", word, join(names, ", ")), where, "write it in full");
  }
  const auto near = nearest_name(word, all);  // all would be a screen of names
  throw usage_error(fmt::format("unknown argument `{}`", word), where,
                    near ? fmt::format("did you mean `{}`?", *near) : "--list shows those that are known");
}

const Argument& Arguments::find_key(std::string_view key, const std::string& where) const {
  const auto word = std::ranges::find_if(table_, [&](const Argument& argument) { return key == argument.names; });
  return word != table_.end() ? *word : find("--" + std::string(key), where);
}

std::vector<std::string> Arguments::parse(const std::vector<std::string>& words) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!is_option(words[i])) {
      rest.push_back(words[i]);
      continue;
    }
    std::string name = words[i];
    std::vector<std::string> values;
    const size_t equals = name.find('=');
    const bool attached = !name.starts_with("--") && name.size() > 2 && parse_float(std::string_view(name).substr(2));
    if (equals != std::string::npos || attached) {
      values.push_back(name.substr(attached ? 2 : equals + 1));
      name.resize(attached ? 2 : equals);
    }
    const Argument& argument = find(name, "");
    if (argument.takes == Takes::kNothing) {
      if (!values.empty()) throw usage_error(fmt::format("`{}` takes no value", long_name(argument)));
      values.push_back("true");
    } else if (values.empty()) {
      const bool several = takes_several(argument.takes), numbers = argument.takes == Takes::kNumbers;
      while (i + 1 < words.size() && !is_option(words[i + 1]) && (several || values.empty())) {
        if (numbers && !values.empty() && !parse_float(words[i + 1])) break;
        values.push_back(words[++i]);
      }
      const bool may_be_empty = argument.takes == Takes::kTexts || argument.takes == Takes::kOptionalText;
      if (values.empty() && !may_be_empty) throw usage_error(fmt::format("`{}` needs a value", long_name(argument)));
    }
    set(argument, std::move(values), "");
  }
  return rest;
}

void Arguments::set(const Argument& argument, std::vector<std::string> words, const std::string& where) {
  for (const std::string& word : words) check_value(argument, word, where);
  const std::string name = as_name(long_name(argument));
  std::erase_if(values_, [&](const Value& value) { return value.name == name; });
  values_.push_back({name, std::move(words)});
}

void Arguments::set_default(std::string_view key, const std::vector<std::string>& values, const std::string& where) {
  const Argument& argument = find_key(key, where);
  if (value(as_name(long_name(argument))) != nullptr) return;
  if (values.empty() && argument.none != nullptr) return set(argument, {argument.none}, where);
  if (values == std::vector<std::string>{""} && (argument.takes != Takes::kText || *argument.fallback == 0)) return;
  if (argument.takes == Takes::kNothing) {
    if (values.empty()) return;
    if (values.size() != 1 || (values[0] != "true" && values[0] != "false")) {
      throw usage_error(fmt::format("`{}` must be true or false", key), where);
    }
    if (values[0] == "false") return;
  } else if (!takes_several(argument.takes) && values.size() > 1) {
    throw usage_error(fmt::format("`{}` takes one value", key), where);
  }
  if (!values.empty()) set(argument, values, where);
}

const Argument& Arguments::entry(std::string_view name) const {
  const auto found = std::ranges::find_if(table_, [&](const Argument& a) { return as_name(long_name(a)) == name; });
  TESSERA_CHECK(found != table_.end(), "no argument is called so");
  return *found;
}

const Arguments::Value* Arguments::value(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &Value::name);
  return found == values_.end() ? nullptr : &*found;
}

std::vector<std::string> Arguments::words(std::string_view name) const {
  if (const Value* own = value(name)) return own->words;
  const std::string_view fallback = entry(name).fallback;
  return fallback.empty() ? std::vector<std::string>() : split(fallback, ' ');
}

bool Arguments::given(std::string_view name) const {
  const Value* own = value(name);
  if (own == nullptr) return false;
  const Argument& argument = entry(name);
  const std::vector<std::string> fallback = *argument.fallback ? split(argument.fallback, ' ') : std::vector<std::string>();
  if (own->words.size() != fallback.size()) return !(fallback.empty() && own->words == std::vector<std::string>{""});
  for (size_t i = 0; i < fallback.size(); ++i) {
    const auto a = parse_float(own->words[i]), b = parse_float(fallback[i]);
    const bool same = a && b ? std::abs(*a - *b) <= 1e-9 * std::abs(*b) : own->words[i] == fallback[i];
    if (!same) return true;
  }
  return false;
}

std::string Arguments::text(std::string_view name) const { return join(words(name), " "); }
bool Arguments::flag(std::string_view name) const { return text(name) == "true"; }

std::optional<double> Arguments::optional_number(std::string_view name) const {
  const std::vector<std::string> values = words(name);
  return values.empty() ? std::nullopt : parse_float(values[0]);
}

double Arguments::number(std::string_view name) const { return optional_number(name).value_or(0); }
int64_t Arguments::integer(std::string_view name) const { return static_cast<int64_t>(number(name)); }

std::vector<double> Arguments::numbers(std::string_view name) const {
  std::vector<double> out;
  for (const std::string& word : words(name)) out.push_back(parse_float(word).value_or(0));
  return out;
}

std::vector<const Argument*> Arguments::all_given() const {
  std::vector<const Argument*> out;
  for (const Argument& argument : table_) {
    if (given(as_name(long_name(argument)))) out.push_back(&argument);
  }
  return out;
}

void Arguments::refuse_missing() const {
  for (const Argument* argument : all_given()) {
    if (argument->kind == Kind::kMissing) {
      throw usage_error(fmt::format("`{}` has no counterpart here", long_name(*argument)), {}, argument->how);
    }
  }
}

std::string argument_lists(std::span<const Argument> table) {
  std::string out;
  for (const auto& [kind, title] : {std::pair{Kind::kExact, "Exact"}, std::pair{Kind::kApproximated, "Approximated, and how"},
                                    std::pair{Kind::kIgnored, "Ignored"}, std::pair{Kind::kMissing, "Missing: an error"}}) {
    std::string rows;
    for (const Argument& argument : table) {
      if (argument.kind != kind) continue;
      const std::string fallback = *argument.fallback ? fmt::format("`{}`", argument.fallback) : "";
      std::string how = argument.how;
      for (size_t at = how.find('|'); at != std::string::npos; at = how.find('|', at + 2)) how.insert(at, 1, '\\');
      rows += fmt::format("| `{}` | {} | {} |\n", join(names_of(argument), "`, `"), fallback, how);
    }
    if (rows.empty()) continue;
    out += fmt::format("{}## {}\n\n| argument | default | here |\n|---|---|---|\n{}", out.empty() ? "" : "\n", title, rows);
  }
  return out;
}

void RecipeText::number(const std::string& key, double value) { raw(key, number_text(value)); }

std::string RecipeText::quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    static_cast<unsigned char>(c) < 0x20 ? out += fmt::format("\\u{:04x}", static_cast<unsigned>(c)) : out += c;
  }
  return out + "\"";
}

std::string number_text(double value) { return fmt::format("{:.10g}", value); }

std::string numbers_text(const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(number_text(value));
  return "[" + join(parts, ", ") + "]";
}

std::string leading_comments(std::string_view recipe) {
  size_t end = 0;
  while (end < recipe.size() && recipe[end] == '#') end = std::min(recipe.find('\n', end), recipe.size() - 1) + 1;
  return std::string(recipe.substr(0, end));
}

bool is_setting(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && word.substr(0, equals).find_first_of("/ ") == std::string::npos;
}

std::string call_value(const std::string& text) {
  // {000..127} is a pattern.
  if (text.find_first_of(",()[]'\" |=") == std::string::npos) return text;
  const char quote = text.find('\'') == std::string::npos ? '\'' : '"';
  return quote + text + quote;
}

void tell_of(const Arguments& arguments, std::vector<std::string>& notes) {
  std::vector<std::string> ignored;
  for (const Argument* argument : arguments.all_given()) {
    if (argument->kind == Kind::kIgnored) ignored.push_back(long_name(*argument));
    if (argument->kind != Kind::kApproximated) continue;
    notes.push_back(fmt::format("approximated: {}: {}", long_name(*argument), argument->how));
  }
  if (!ignored.empty()) notes.push_back("ignored: " + join(ignored, ", "));
}

}  // namespace tessera::translate
