#pragma once
// Rules are patterns over names, first match wins: sharding, freezing, learning-rate multipliers, weight decay, loading.
// A pattern is an ECMAScript regular expression that must match the whole name, as in big_vision.

#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class Pattern {
 public:
  // Throws a usage Error at `where` when `text` is not a regular expression.
  explicit Pattern(std::string text, std::string_view where = {});
  bool matches(std::string_view name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::regex regex_;
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

}  // namespace tessera
