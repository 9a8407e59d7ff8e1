#include "data/names.h"

#include "base/text/text.h"

namespace tessera::data {

std::vector<std::string> parse_names(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::vector<std::string> names;
  for (const std::string& part : split(text, ',')) {
    std::string_view name = trim(part);
    const bool quoted = name.size() >= 2 && name.front() == name.back() && (name.front() == '"' || name.front() == '\'');
    if (quoted) name = name.substr(1, name.size() - 2);
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

}  // namespace tessera::data
