#include <fmt/format.h>

#include <algorithm>

#include "fuzz/targets.h"
#include "http/message.h"

namespace tessera::fuzz {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return out;
}

// A target and, on a second line, a header Cookie. What is read of a target says the same when it is written again.
bool request(std::string_view bytes) {
  const size_t line = std::min(bytes.find('\n'), bytes.size());
  http::Request read;
  read.headers = {{"cookie", std::string(bytes.substr(std::min(line + 1, bytes.size())))}};
  for (const char* name : {"tessera_6070", "", "a"}) {
    const auto value = read.cookie(name);
    TESSERA_CHECK(!value || value->find(';') == std::string::npos);
  }
  if (!http::parse_target(bytes.substr(0, line), read)) return false;
  TESSERA_CHECK(read.path.starts_with('/') && read.path.find('\0') == std::string::npos);
  std::string again = "/" + escaped(read.path.substr(1)) + "?";
  for (const auto& [name, value] : read.query) again += escaped(name) + "=" + escaped(value) + "&";
  http::Request second;
  TESSERA_CHECK(http::parse_target(again, second));
  TESSERA_CHECK(second.path == read.path && second.query == read.query);
  return true;
}

}  // namespace

const std::vector<NamedTarget>& http_targets() {
  static const std::vector<NamedTarget> all = {{"request", request, 512}};
  return all;
}

}  // namespace tessera::fuzz
