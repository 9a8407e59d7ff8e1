#pragma once
// A client that says to an HTTP server of this machine exactly what a test wants said.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::testing {

class HttpConnection {
 public:
  explicit HttpConnection(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpConnection() { ::close(socket_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Waits until `end` has come, or the server closed; what came until then, `end` included.
  std::string read_until(std::string_view end) {
    for (;;) {
      if (const size_t at = got_.find(end); at != std::string::npos) return take(at + end.size());
      if (!receive()) return take(got_.size());
    }
  }
  std::string read(size_t bytes) {
    while (got_.size() < bytes && receive()) {
    }
    return take(std::min(bytes, got_.size()));
  }
  std::string read_all() {
    while (receive()) {
    }
    return take(got_.size());
  }

 private:
  bool receive() {
    char part[4096];
    const ssize_t count = ::recv(socket_, part, sizeof part, 0);
    if (count <= 0) return false;
    got_.append(part, static_cast<size_t>(count));
    return true;
  }
  std::string take(size_t bytes) {
    std::string out = got_.substr(0, bytes);
    got_.erase(0, bytes);
    return out;
  }

  int socket_;
  bool connected_ = false;
  std::string got_;
};

struct HttpAnswer {
  int status = 0;  // 0: there was none
  std::string head, body;

  // Of the first header of this name, as it is written; empty where there is none.
  std::string header(std::string_view name) const {
    const size_t at = head.find(fmt::format("\r\n{}: ", name));
    if (at == std::string::npos) return {};
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

// The answer on a connection to which a request was sent.
inline HttpAnswer read_answer(HttpConnection& connection, bool without_body = false) {
  HttpAnswer out;
  out.head = connection.read_until("\r\n\r\n");
  if (out.head.starts_with("HTTP/1.1 ")) out.status = std::stoi(out.head.substr(9, 3));
  const std::string length = out.header("Content-Length");
  if (!length.empty() && !without_body) out.body = connection.read(std::stoul(length));
  return out;
}

// `headers` end in "\r\n" each.
inline HttpAnswer http(uint16_t port, std::string_view method, std::string_view target, std::string_view headers = {}) {
  HttpConnection connection(port);
  connection.send(
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n{}\r\n", method, target, port, headers));
  return read_answer(connection, method == "HEAD");
}

}  // namespace tessera::testing
