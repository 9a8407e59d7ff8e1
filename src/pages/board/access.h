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

  // What is answered instead where a request may not be answered; nothing where it may. `open`: without a token.
  std::optional<http::Response> refusal(const http::Request& request, bool open) const;
  // Where a page is opened with the token in its address: the way to the same page without it, and a cookie.
  std::optional<http::Response> without_token(const http::Request& request) const;

 private:
  bool known(const http::Request& request) const;
  std::string cookie_name(const http::Request& request) const;
  bool is_token(const std::optional<std::string>& text) const;

  std::string token_;
};

}  // namespace tessera::board
