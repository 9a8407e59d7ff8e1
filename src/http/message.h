#pragma once
// A request that was read, and what is answered.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::http {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;  // "GET"
  std::string path;    // without escapes: "/api/runs"
  Pairs query;         // of the target, in its order, without escapes
  Pairs headers;       // names in lower case
  std::string body;

  // The first of that name.
  std::optional<std::string> parameter(std::string_view name) const;
  std::optional<std::string> header(std::string_view lower_case_name) const;
  // Of the header Cookie (RFC 6265).
  std::optional<std::string> cookie(std::string_view name) const;
};

// Splits "/a%20b?x=1&y=%2F" (RFC 3986, origin form; '+' in the query is a space, as forms send it). False for what is none, or
// has escapes that are none, or a NUL.
bool parse_target(std::string_view target, Request& out);

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  Pairs headers = {};
  // The connection stays open and gets what Server::send_event sends (text/event-stream); `body` is sent first.
  bool events = false;
};

}  // namespace tessera::http
