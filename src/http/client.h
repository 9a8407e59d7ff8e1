#pragma once
// Requests to a JSON server of a cluster, over HTTP/1.1 (Boost.Beast), plain or in TLS between those who have one key.

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tessera::http {

struct Endpoint {
  std::string host, port;
  // PEM of a private key and of the certificate that goes with it: both ends show this certificate and take no other, whatever
  // name is in it. Empty: plain HTTP.
  std::string key = {};

  std::string text() const;  // "host:port", brackets around an IPv6 address
};

// Of "http://host:port", "host:port" or "host". Nothing for what is neither.
std::optional<Endpoint> parse_endpoint(std::string_view text, std::string_view default_port);

// The server can't be reached, does not answer in time, ended the connection, or one end does not take the other's certificate.
class ConnectionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Its host has no address, or nothing listens there: it may come yet.
class NotThere : public ConnectionError {
 public:
  using ConnectionError::ConnectionError;
};

struct Answer {
  int status = 0;
  std::string body;
};

// Whether `key` is what Endpoint::key says.
bool is_key(const std::string& key);

// POSTs JSON and waits for the whole answer. Throws ConnectionError; NotThere where not even a connection was made.
Answer post_json(const Endpoint& to, std::string_view path, std::string body, std::chrono::milliseconds patience);

// A POST whose answer comes line by line and may never end.
class LineStream {
 public:
  // Connects, sends, and waits for the answer's header. Throws ConnectionError, also where the status is not 200.
  LineStream(const Endpoint& to, std::string_view path, std::string body, std::chrono::milliseconds patience);
  ~LineStream();
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;

  // Waits for the next line, for ever. Nothing at the end of the answer, when the connection breaks, and after close().
  std::optional<std::string> next();
  // Wakes next(). From any thread.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::http
