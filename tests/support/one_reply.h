#pragma once
// A server of one request.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>
#include <utility>

namespace tessera::testing {

// Answers one request, and gives what it was.
class OneReply {
 public:
  explicit OneReply(std::string reply) {
    listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 1), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
    request_ = std::async(std::launch::async, [this, text = std::move(reply)] { return serve(text); });
  }
  ~OneReply() { ::close(listening_); }
  const std::string& url() const { return url_; }
  std::string request() { return request_.get(); }

 private:
  std::string serve(const std::string& reply) const {
    const int connection = ::accept(listening_, nullptr, nullptr);
    std::string text;
    std::array<char, 4096> part{};
    const auto whole = [&] {
      const size_t end = text.find("\r\n\r\n"), length = text.find("Content-Length: ");
      if (end == std::string::npos) return false;
      return length == std::string::npos || text.size() >= end + 4 + std::stoul(text.substr(length + 16));
    };
    while (!whole()) {
      const ssize_t size = ::read(connection, part.data(), part.size());
      if (size <= 0) break;
      text.append(part.data(), static_cast<size_t>(size));
    }
    EXPECT_EQ(::write(connection, reply.data(), reply.size()), static_cast<ssize_t>(reply.size()));
    ::close(connection);
    return text;
  }

  int listening_ = -1;
  std::string url_;
  std::future<std::string> request_;
};

inline std::string reply_of(const std::string& status, const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     status, body.size(), body);
}

}  // namespace tessera::testing
