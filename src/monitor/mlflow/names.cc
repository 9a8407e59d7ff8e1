#include "monitor/mlflow/names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text/text.h"

namespace tessera::monitor {

std::string mlflow_key(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '@') {
      plain += "_at_";
    } else {
      plain += letter || std::string_view("_-. :/").find(c) != std::string_view::npos ? c : '_';
    }
  }
  // A path that means itself, as MLflow's stores of files want it.
  std::vector<std::string> parts = split(plain, '/');
  for (std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") part.assign(std::max<size_t>(1, part.size()), '_');
  }
  std::string key = join(parts, "/").substr(0, kMlflowKey);
  while (key.size() == kMlflowKey && key.back() == '/') key.back() = '_';
  return key;
}

std::string mlflow_text(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace tessera::monitor
