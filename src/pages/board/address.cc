#include "pages/board/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace tessera::board {
namespace {

constexpr const char* kExample = "a port from 0 to 65535, as 6070, or 127.0.0.1:6070";

struct HostPort {
  std::string_view host;  // without brackets
  std::optional<std::string_view> port;
};

HostPort split_host(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  const size_t colon = bracket != std::string_view::npos ? text.find(':', bracket) : text.rfind(':');
  HostPort out{text.substr(0, colon), std::nullopt};
  if (colon != std::string_view::npos) out.port = text.substr(colon + 1);
  if (bracket != std::string_view::npos) out.host = text.substr(1, bracket - 1);
  return out;
}

std::optional<uint16_t> port_of(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(port) : std::nullopt;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace

std::string Address::url() const {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}/", host, port)
                                             : fmt::format("http://[{}]:{}/", host, port);
}

Address parse_address(std::string_view text) {
  Address out;
  if (text.empty()) return out;
  if (const auto port = port_of(text)) {
    out.port = *port;
    return out;
  }
  if (text.find_first_not_of("0123456789") == std::string_view::npos)
    throw usage_error(fmt::format("`{}` is no port", text), {}, kExample);
  const HostPort parts = split_host(text);
  if (parts.port) {
    const auto port = port_of(*parts.port);
    if (!port) throw usage_error(fmt::format("`{}` is no port, in the address `{}`", *parts.port, text), {}, kExample);
    out.port = *port;
  }
  if (!parts.host.empty()) out.host = parts.host == "localhost" ? "127.0.0.1" : parts.host;
  if (!is_loopback(out.host)) {
    throw usage_error(
        fmt::format("the page is served to this machine alone, and not at `{}`: it speaks no TLS", parts.host), {},
        fmt::format("leave the address out, and on the other machine: ssh -L {0}:localhost:{0} THIS_MACHINE", out.port));
  }
  return out;
}

bool is_loopback_host(std::string_view host) {
  const HostPort parts = split_host(host);
  return is_loopback(parts.host) && (!parts.port || port_of(*parts.port));
}

}  // namespace tessera::board
