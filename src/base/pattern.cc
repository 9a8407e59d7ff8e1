#include "base/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace tessera {

Pattern::Pattern(std::string text, std::string_view where) : text_(std::move(text)) {
  try {
    regex_ = std::regex(text_, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw usage_error(fmt::format("`{}` is not a regular expression: {}", text_, error.what()), std::string(where));
  }
}

bool Pattern::matches(std::string_view name) const { return std::regex_match(name.begin(), name.end(), regex_); }

namespace {

// The pattern without the signs of regular expressions, to look for a name that was meant.
std::string plain_part(const std::string& pattern) {
  std::string plain;
  for (const char c : pattern) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/' || c == '-') plain += c;
  }
  while (!plain.empty() && plain.back() == '/') plain.pop_back();
  return plain;
}

std::vector<std::string> with_prefixes(const std::vector<std::string>& names) {
  std::set<std::string> all;
  for (const std::string& name : names) {
    for (size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) all.insert(name.substr(0, end));
    all.insert(name);
  }
  return {all.begin(), all.end()};
}

}  // namespace

std::optional<std::pair<std::string, std::string>> split_rule(std::string_view line) {
  int depth = 0;
  for (size_t i = line.size(); i-- > 0;) {
    const char c = line[i];
    depth += c == ')' || c == ']' || c == '}' ? 1 : c == '(' || c == '[' || c == '{' ? -1 : 0;
    if (c == '=' && depth == 0) return std::pair{std::string(trim(line.substr(0, i))), std::string(trim(line.substr(i + 1)))};
  }
  return std::nullopt;
}

std::optional<std::string> unmatched(const Pattern& pattern, const std::vector<std::string>& names, std::string_view what) {
  if (std::any_of(names.begin(), names.end(), [&](const std::string& n) { return pattern.matches(n); })) return std::nullopt;
  std::string message = fmt::format("no {} matches \"{}\"", what, pattern.text());
  const auto near = nearest_name(plain_part(pattern.text()), with_prefixes(names));
  return near ? fmt::format("{}; did you mean `{}`?", message, *near) : message;
}

}  // namespace tessera
