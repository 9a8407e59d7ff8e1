#include "base/text/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

namespace {

constexpr size_t kMaxPatternBytes = 4096;

re2::RE2::Options options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  // Bytes: a name that is no UTF-8 has its rules too.
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  options.set_max_mem(int64_t{8} << 20);
  return options;
}

// What to write instead of what RE2 leaves out.
std::string help_for(const re2::RE2& regex) {
  const std::string& part = regex.error_arg();
  const bool around = part.starts_with("(?=") || part.starts_with("(?!") || part.starts_with("(?<");
  const bool back = regex.error_code() == re2::RE2::ErrorBadEscape && part.size() == 2 && part[1] >= '1' && part[1] <= '9';
  if (around) {
    return "patterns have no look-ahead and no look-behind; of several rules the first that matches wins, so name the "
           "exception first: lr_mult = [\"head/.* = 1\", \".* = 0\"] trains the head alone";
  }
  return back ? "patterns have no back-references; write the names out: (a/a|b/b)" : "";
}

}  // namespace

Pattern::Pattern(std::string text, std::string_view where) : text_(std::move(text)) {
  if (text_.size() > kMaxPatternBytes) {
    throw usage_error(fmt::format("a pattern of {} characters begins with `{}`", text_.size(), text_.substr(0, 60)),
                      std::string(where), fmt::format("patterns have at most {}", kMaxPatternBytes));
  }
  regex_ = std::make_shared<const re2::RE2>(text_, options());
  if (!regex_->ok()) {
    throw usage_error(fmt::format("`{}` is not a regular expression: {}", text_, regex_->error()), std::string(where),
                      help_for(*regex_));
  }
}

bool Pattern::matches(std::string_view name) const {
  return re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *regex_);
}

std::optional<std::string> Pattern::first_group(std::string_view name) const {
  std::string group;
  if (regex_->NumberOfCapturingGroups() == 0) return std::nullopt;
  if (!re2::RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *regex_, &group)) return std::nullopt;
  return group;
}

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
