#pragma once
// Rules are patterns over names, first match wins: sharding, freezing, learning-rate multipliers, weight decay, loading.
// A pattern is a regular expression of RE2 that must match the whole name, as in big_vision. RE2 takes time that grows with the
// length of the name and memory that is bounded, whatever the pattern; so it has neither look-around nor back-references.
// Names are compared byte by byte.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace re2 {
class RE2;
}

namespace tessera {

class Pattern {
 public:
  // Throws a usage Error at `where` when `text` is not a regular expression.
  explicit Pattern(std::string text, std::string_view where = {});
  bool matches(std::string_view name) const;
  // What the pattern's first parentheses hold of a name that it matches; nothing where it doesn't, or where it has none.
  std::optional<std::string> first_group(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> regex_;
};

// An ordered list of (pattern, value); find() gives the value of the first pattern that matches, or nullptr.
template <class T>
struct PatternRules {
  struct Rule {
    Pattern pattern;
    T value;
  };
  std::vector<Rule> rules;

  const T* find(std::string_view name) const {
    for (const Rule& rule : rules) {
      if (rule.pattern.matches(name)) return &rule.value;
    }
    return nullptr;
  }
};

// "PATTERN = VALUE" -> both, trimmed. The last '=' outside brackets divides: patterns and values (named
// arguments) may hold others in theirs. Nothing when there is none.
std::optional<std::pair<std::string, std::string>> split_rule(std::string_view line);

// Nothing when `pattern` matches one of `names`; else "no WHAT matches "PATTERN"; did you mean `NAME`?", where NAME is the
// nearest name, or part of one up to a '/'.
std::optional<std::string> unmatched(const Pattern& pattern, const std::vector<std::string>& names, std::string_view what);

}  // namespace tessera
