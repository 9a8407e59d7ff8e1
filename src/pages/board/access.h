#pragma once
// Who may ask: whoever has the token, from a page of ours. A token comes in the address (once: it becomes a cookie), in a cookie,
// or as `Authorization: Bearer TOKEN`.

#include <optional>
#include <string>

#include "http/message.h"

namespace tessera::board {

// TESSERA_BOARD_TOKEN, or 32 hexadecimal digits that nobody can foretell. A usage Error for one that is short or has other
// characters than letters, digits, '-' and '_'.
std::string board_token();

class Access {
 public:
  explicit Access(std::string token) : token_(std::move(token)) {}

  // The answer to a request that is refused; nothing where it may be answered. `open`: needs no token.
  std::optional<http::Response> refusal(const http::Request& request, bool open) const;
  // For a page that is opened with the token in its address: a redirect to the address without it, and a cookie.
  std::optional<http::Response> without_token(const http::Request& request) const;

 private:
  bool known(const http::Request& request) const;
  std::string cookie_name(const http::Request& request) const;
  bool is_token(const std::optional<std::string>& text) const;

  std::string token_;
};

}  // namespace tessera::board
