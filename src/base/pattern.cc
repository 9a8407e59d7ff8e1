#include "base/pattern.h"

#include "base/error.h"

namespace tessera {

Pattern::Pattern(std::string text, std::string_view where) : text_(std::move(text)) {
  try {
    regex_ = std::regex(text_, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw usage_error(fmt::format("`{}` is not a regular expression: {}", text_, error.what()), std::string(where));
  }
}

bool Pattern::matches(std::string_view name) const { return std::regex_match(name.begin(), name.end(), regex_); }

}  // namespace tessera
