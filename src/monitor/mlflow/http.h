#pragma once
// Requests over HTTP(S) with libcurl, which is loaded when the first one is made: linked, it and the thirty libraries that it
// brings would be loaded whenever the program starts.

#include <chrono>
#include <memory>
#include <string>

#include "base/error.h"

namespace tessera::monitor {

struct HttpOptions {
  // One of them, or neither; they go to the server alone, and into no message.
  std::string user, password, token;
  bool verify = true;           // the server's certificate
  std::string authorities;      // a file of certificates to trust; empty: the system's
  std::string own_certificate;  // a file, for servers that ask for one
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(5), timeout = std::chrono::seconds(30);
};

struct HttpReply {
  long status = 0;  // 200
  std::string body;
};

// No connection to the server: it got nothing.
class NotReached : public Error {
 public:
  explicit NotReached(std::string what) : Error(Exit::kData, std::move(what)) {}
};

// For one thread. Keeps its connection open.
class Http {
 public:
  // Throws a data Error where libcurl is not installed.
  explicit Http(const HttpOptions& options);
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // A POST of `json`, or a GET where it is empty. Redirects are not followed. Throws a data Error where no reply
  // comes, which is NotReached where there was no connection.
  HttpReply request(const std::string& url, const std::string& json);
  // A part of a URL's query: all but letters, digits and "-._~" as %XX.
  std::string escaped(const std::string& text) const;

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace tessera::monitor
