#include "http/message.h"

#include <algorithm>

#include "base/text/text.h"

namespace tessera::http {
namespace {

std::optional<std::string> find(const Pairs& pairs, std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return value;
  }
  return std::nullopt;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> without_escapes(std::string_view text, bool query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
      const int low = high >= 0 ? digit_of(text[i + 2]) : -1;
      if (low < 0) return std::nullopt;
      c = static_cast<char>(16 * high + low);
      i += 2;
    } else if (c == '+' && query) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

}  // namespace

std::optional<std::string> Request::parameter(std::string_view name) const { return find(query, name); }
std::optional<std::string> Request::header(std::string_view name) const { return find(headers, name); }

std::optional<std::string> Request::cookie(std::string_view name) const {
  const auto cookies = header("cookie");
  if (!cookies) return std::nullopt;
  for (const std::string& one : split(*cookies, ';')) {
    const std::string_view pair = trim(one);
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) return std::string(pair.substr(equals + 1));
  }
  return std::nullopt;
}

bool parse_target(std::string_view target, Request& out) {
  if (!target.starts_with('/')) return false;
  const size_t mark = target.find('?');
  auto path = without_escapes(target.substr(0, mark), false);
  if (!path) return false;
  out.path = std::move(*path);
  out.query.clear();
  if (mark == std::string_view::npos) return true;
  for (const std::string& one : split(target.substr(mark + 1), '&')) {
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    auto name = without_escapes(std::string_view(one).substr(0, equals), true);
    auto value = without_escapes(std::string_view(one).substr(std::min(equals + 1, one.size())), true);
    if (!name || !value) return false;
    out.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

}  // namespace tessera::http
