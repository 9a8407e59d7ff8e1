#include "pages/board/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "pages/board/address.h"
#include "store/encoding/digest.h"

namespace tessera::board {
namespace {

constexpr size_t kLeastToken = 16, kMaxToken = 128;
constexpr std::string_view kBearer = "Bearer ";

http::Response plain(int status, std::string text) { return {status, "text/plain; charset=utf-8", std::move(text) + "\n"}; }

std::string after_scheme(const std::string& origin) {
  const size_t at = origin.find("://");
  return at == std::string::npos ? origin : origin.substr(at + 3);
}

}  // namespace

std::string board_token() {
  if (const char* given = std::getenv("TESSERA_BOARD_TOKEN"); given && *given) {
    const std::string token = given;
    const bool plain = std::ranges::all_of(token, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    });
    if (plain && token.size() >= kLeastToken && token.size() <= kMaxToken) return token;
    throw usage_error(
        fmt::format("TESSERA_BOARD_TOKEN is no token: {} to {} letters, digits, - and _", kLeastToken, kMaxToken));
  }
  return store::random_hex(16);
}

bool Access::is_token(const std::optional<std::string>& text) const {
  return text && store::same_digest(std::as_bytes(std::span(*text)), std::as_bytes(std::span(token_)));
}

// Cookies are shared by all ports of a host.
std::string Access::cookie_name(const http::Request& request) const {
  const std::string host = request.header("host").value_or("");
  const size_t colon = host.rfind(':');
  const std::string port = colon == std::string::npos || host.ends_with(']') ? "80" : host.substr(colon + 1);
  return "tessera_" + port;
}

bool Access::known(const http::Request& request) const {
  const auto authorization = request.header("authorization");
  if (authorization && authorization->starts_with(kBearer) && is_token(authorization->substr(kBearer.size()))) return true;
  return is_token(request.parameter("token")) || is_token(request.cookie(cookie_name(request)));
}

std::optional<http::Response> Access::refusal(const http::Request& request, bool open) const {
  if (!is_loopback_host(request.header("host").value_or(""))) {
    return plain(421, "this page is served as localhost alone: use ssh -L PORT:localhost:PORT and http://localhost:PORT/");
  }
  if (open) return std::nullopt;
  if (!known(request)) {
    return plain(401,
                 "a token is needed: open the address that `tessera` printed, which ends in ?token=…, or send the header "
                 "`Authorization: Bearer TOKEN`");
  }
  const auto origin = request.header("origin");
  if (origin && after_scheme(*origin) != request.header("host")) return plain(403, "asked by a page from elsewhere");
  if (request.header("sec-fetch-site") == "cross-site" && request.method != "GET") {
    return plain(403, "asked by a page from elsewhere");
  }
  return std::nullopt;
}

std::optional<http::Response> Access::without_token(const http::Request& request) const {
  if (!is_token(request.parameter("token"))) return std::nullopt;
  http::Response response{303};
  response.headers = {{"Location", "/"},
                      {"Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(request), token_)}};
  return response;
}

}  // namespace tessera::board
