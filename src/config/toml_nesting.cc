#include "config/toml_nesting.h"

#include <algorithm>
#include <vector>

namespace tessera::config {
namespace {

// The end of the string that begins at `at`; of one that nothing ends, the end of the line or of the text.
size_t skip_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const bool escapes = quote == '"';
  const bool many_lines = text.size() - at >= 3 && text[at + 1] == quote && text[at + 2] == quote;
  for (at += many_lines ? 3 : 1; at < text.size(); ++at) {
    if (escapes && text[at] == '\\') {
      ++at;
    } else if (!many_lines && text[at] == '\n') {
      return at;
    } else if (text[at] == quote) {
      if (!many_lines) return at + 1;
      if (text.size() - at < 3 || text[at + 1] != quote || text[at + 2] != quote) continue;
      // Two more quotes may stand before the three that end it.
      at += 3;
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
  }
  return text.size();
}

class Nesting {
 public:
  // The next character outside strings and comments.
  void take(char c) {
    if (c == '\n') {
      if (in_header_) header_ = 1 + dots_;
      in_header_ = false, line_begins_ = true, dots_ = 0;
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r') return;
    if (line_begins_ && c == '[' && open_.empty()) in_header_ = true, header_ = 0;
    line_begins_ = false;
    if (c == '.') ++dots_;
    if (in_header_) return;
    if (c == ',') dots_ = 0;
    if (c == '[' || c == '{') {
      open_.push_back(dots_);
      around_ += 1 + dots_;
      dots_ = 0;
    } else if ((c == ']' || c == '}') && !open_.empty()) {
      around_ -= 1 + open_.back();
      open_.pop_back();
      dots_ = 0;
    }
  }
  size_t depth() const { return header_ + around_ + dots_; }

 private:
  bool in_header_ = false, line_begins_ = true;
  size_t header_ = 0, around_ = 0;  // levels of the [header], and of brackets with the keys before them
  size_t dots_ = 0;                 // of the key that is being read
  std::vector<size_t> open_;        // the dots before each open bracket
};

}  // namespace

std::optional<size_t> find_deep_line(std::string_view text) {
  Nesting nesting;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    nesting.take(c);
    if (nesting.depth() > kMaxTomlDepth) {
      return 1 + static_cast<size_t>(std::ranges::count(text.substr(0, at), '\n'));
    }
    at = c == '"' || c == '\'' ? skip_string(text, at) : at + 1;
  }
  return std::nullopt;
}

}  // namespace tessera::config
